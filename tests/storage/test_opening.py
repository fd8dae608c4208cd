from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.cli.app import run


@pytest.mark.parametrize("command", [["migrate"], ["backup", "--data-dir", "."], ["restore", "copy.db"]])
def test_commands_on_the_file_refuse_a_database_on_a_server(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTCTX_STORAGE__URL", "postgresql://me@db.example.org/memory")
    assert run(command) == 2
    printed = capsys.readouterr().err
    assert "on a server, postgresql://me@db.example.org/memory" in printed
    assert "pg_dump" in printed
    assert list(tmp_path.iterdir()) == []
