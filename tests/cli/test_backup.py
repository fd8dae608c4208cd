from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.daemon.host.lock import acquire_lock, data_lock_path
from agentctx.storage.sqlite.backup.backup_file import read_backup
from tests.fixtures.releases import ENTRIES, VECTORS, VERSIONS, contents, unpack


def test_backup_without_a_daemon_reads_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unpack(tmp_path)
    target = tmp_path / "b.db"
    assert run(["backup", str(target), "--data-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("backed up  12 entries, 2 older versions  ")
    assert read_backup(target).schema == 1
    assert run(["backup", "--data-dir", str(tmp_path), "--json"]) == 0
    assert Path(json.loads(capsys.readouterr().out)["file"]).parent == tmp_path / "backups"


def test_backup_of_a_missing_database_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backup", str(tmp_path / "b.db"), "--data-dir", str(tmp_path)]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_backup_is_refused_while_a_daemon_on_another_socket_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unpack(tmp_path)
    with acquire_lock(data_lock_path(tmp_path)):
        assert run(["backup", str(tmp_path / "b.db"), "--data-dir", str(tmp_path)]) == 1
    assert "Another agentctx daemon" in capsys.readouterr().err


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
