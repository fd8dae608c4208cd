from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.storage.opening import FILE_NAME, daemon_id


@pytest.mark.parametrize("command", [["backup", "--data-dir", "."], ["restore", "copy.db"]])
def test_commands_on_the_database_file_refuse_a_database_server(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTCTX_STORAGE__URL", "postgresql://me@db.example.org/memory")
    assert run(command) == 2
    printed = capsys.readouterr().err
    assert "on a server, postgresql://me@db.example.org/memory" in printed
    assert "pg_dump" in printed
    assert list(tmp_path.iterdir()) == []


def test_the_daemon_id_is_stable_and_differs_per_folder(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert daemon_id(one) == daemon_id(one)
    assert daemon_id(one) != daemon_id(two)


def test_an_empty_id_file_from_an_interrupted_start_is_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("")
    assert daemon_id(tmp_path)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
