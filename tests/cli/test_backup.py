from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.daemon.host.lock import acquire_lock, data_lock_path
from agentctx.storage.sqlite.backup.backup_file import read_backup
from tests.fixtures.releases import unpack


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
