"""The audit trail of a real daemon: recorded, shown, verified with and without the daemon."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.storage.file.driver import open_connection
from tests.end_to_end.daemon_process import DaemonProcess

OFF = '[embedding]\nprovider = "none"\n'


def test_a_trail_is_shown_and_verified_and_tampering_is_detected(
    make_daemon: Callable[..., DaemonProcess],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    daemon = make_daemon(config=OFF).start()
    monkeypatch.setenv("AGENTCTX_SOCKET", str(daemon.socket))
    with daemon.client() as client:
        saved = client.save_knowledge("a key", "a text")
        client.forget(saved.id)
        backup = client.backup().file
    assert run(["audit", "list", "--json"]) == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert [event["kind"] for event in events] == ["backup", "forget", "save", "start"]
    assert run(["audit", "list", "--kind", "forget"]) == 0
    shown = capsys.readouterr().out
    assert saved.id in shown
    assert "a key" not in shown
    assert run(["audit", "verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"sound": True, "rows": 4, "faults": 0, "listed": []}
    assert daemon.stop() == 0

    database = daemon.data_dir / "agentctx.db"
    assert run(["audit", "verify", "--database", str(database)]) == 0
    assert run(["restore", backup, "--data-dir", str(daemon.data_dir)]) == 0
    capsys.readouterr()
    assert run(["audit", "verify", "--database", str(database)]) == 0
    daemon.start()
    capsys.readouterr()
    assert run(["audit", "list", "--json"]) == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert [event["kind"] for event in events] == ["start", "restore", "forget", "save", "start"]
    assert run(["doctor", "--only", "database.audit"]) == 0
    assert daemon.stop() == 0

    with closing(open_connection(database)) as connection:
        connection.execute("DELETE FROM audit WHERE kind = 'forget'")
    capsys.readouterr()
    assert run(["audit", "verify", "--database", str(database)]) == 1
    assert "does not follow the row before it" in capsys.readouterr().out


def test_a_file_that_is_not_a_database_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", "verify", "--database", str(tmp_path / "none.db")]) == 1
    assert "does not exist" in capsys.readouterr().err
