from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.daemon.host.lock import acquire_lock, data_lock_path
from tests.fixtures.releases import ENTRIES, VECTORS, VERSIONS, contents, unpack


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return unpack(tmp_path).rename(tmp_path / "b.db")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    unpack(folder)
    return folder


def restore(backup: Path, data_dir: Path, *options: str) -> int:
    return run(["restore", str(backup), "--data-dir", str(data_dir), *options])


def test_restore_reports_what_it_restored_and_kept(
    backup: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert restore(backup, data_dir) == 0
    (kept,) = data_dir.glob("agentctx.db.before-restore-*")
    out = capsys.readouterr().out
    assert f"restored  {ENTRIES} entries" in out
    assert str(kept) in out
    restored, saved = contents(data_dir / "agentctx.db"), contents(backup)
    for name in saved.keys() - {"audit", "installation"}:  # they record the restore
        assert restored[name] == saved[name]


def test_a_dry_run_of_restore_changes_nothing(
    backup: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(data_dir.iterdir())
    assert restore(backup, data_dir, "--dry-run", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["dry_run"] is True
    assert (report["entries"], report["versions"], report["vectors"]) == (ENTRIES, VERSIONS, VECTORS)
    assert sorted(data_dir.iterdir()) == before


def test_restore_is_refused_while_a_daemon_runs(
    backup: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with acquire_lock(data_lock_path(data_dir)):
        assert restore(backup, data_dir) == 1
        assert "Stop it, restore" in capsys.readouterr().err
        assert restore(backup, data_dir, "--dry-run") == 0
