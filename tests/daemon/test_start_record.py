from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentctx.daemon.start_record import StartRecorder
from agentctx.doctor.daemon import RECORD_NAME, StartRecord, read_record
from agentctx.errors import SchemaTooNew
from agentctx_testing.drafts import ManualClock

ENTRY_TEXT = "text of an entry"


def record(folder: Path) -> StartRecord:
    found = read_record(folder)
    assert found is not None
    return found


def test_a_start_goes_from_starting_to_ready_to_stopped(tmp_path: Path) -> None:
    clock = ManualClock()
    with StartRecorder(tmp_path, tmp_path / "s", clock=clock) as recorder:
        first = record(tmp_path)
        assert (first.state, first.ready, first.socket) == ("starting", None, str(tmp_path / "s"))
        clock.now += 1_000
        recorder.ready()
        assert (record(tmp_path).state, record(tmp_path).ended) == ("ready", None)
    last = record(tmp_path)
    assert last.state == "stopped"
    assert last.ready is not None
    assert last.ended == last.ready > last.started


def test_only_its_owner_may_read_it_and_nothing_else_is_left(tmp_path: Path) -> None:
    (tmp_path / f"{RECORD_NAME}.new").touch(0o644)
    with StartRecorder(tmp_path, tmp_path / "s"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [RECORD_NAME]
    assert stat.S_IMODE((tmp_path / RECORD_NAME).stat().st_mode) == 0o600


def test_a_failed_start_keeps_code_message_and_hint(tmp_path: Path) -> None:
    with pytest.raises(SchemaTooNew), StartRecorder(tmp_path, tmp_path / "s"):
        raise SchemaTooNew("version 9 is too new", hint="Install it.")
    found = record(tmp_path)
    assert (found.state, found.code, found.message, found.hint) == (
        "failed",
        "schema_too_new",
        "version 9 is too new",
        "Install it.",
    )


def test_a_bug_is_reported_by_its_class_alone(tmp_path: Path) -> None:
    error = ExceptionGroup("tasks", [ValueError(ENTRY_TEXT)])
    with pytest.raises(ExceptionGroup), StartRecorder(tmp_path, tmp_path / "s"):
        raise error
    found = record(tmp_path)
    assert (found.state, found.code, found.message) == (
        "failed",
        "internal",
        "The daemon died of ValueError.",
    )
    assert ENTRY_TEXT not in found.to_json()


def test_of_several_errors_ours_is_reported(tmp_path: Path) -> None:
    group = ExceptionGroup("tasks", [ValueError("x"), SchemaTooNew("too new")])
    with pytest.raises(ExceptionGroup), StartRecorder(tmp_path, tmp_path / "s"):
        raise group
    assert record(tmp_path).message == "too new"


def test_an_immediate_stop_counts_as_a_stop(tmp_path: Path) -> None:
    with pytest.raises(asyncio.CancelledError), StartRecorder(tmp_path, tmp_path / "s"):
        raise asyncio.CancelledError
    assert record(tmp_path).state == "stopped"


def test_an_unwritable_record_is_logged_and_does_not_prevent_the_start(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with capture_logs() as logged, StartRecorder(missing, tmp_path / "s") as recorder:
        recorder.ready()
    assert {line["event"] for line in logged} == {"start_not_recorded"}
    assert not missing.exists()
