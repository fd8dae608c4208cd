from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx import __version__
from agentctx.config.commit import own_commit
from agentctx.doctor.check import run_checks
from agentctx.doctor.contexts import Contact
from agentctx.doctor.daemon import (
    RECORD_NAME,
    SLOW_START_MS,
    StartRecord,
    judge_answer,
    judge_start,
    judge_version,
    read_record,
    record_of,
)
from agentctx.errors import AlreadyRunning, ConfigInvalid, DaemonUnreachable, DeadlineExceeded, StorageCorrupt
from agentctx.times import parse_time
from agentctx.wire import CheckStatus
from tests.client.stub_daemon import status_reply
from tests.doctor.contexts import machine

ASKED = ("daemon.answers", "daemon.version")
GONE = DaemonUnreachable("No daemon answers on /s.")
HELD = AlreadyRunning("Another agentctx daemon (pid 7) has locked /d/agentctx.lock.")


async def test_a_daemon_of_this_build_is_well() -> None:
    status = replace(status_reply(commit=own_commit()), version=__version__)
    results = await run_checks(ASKED, machine(contact=Contact(socket="/s", status=status)))
    assert [result.status for result in results] == ["pass", "pass"]
    assert str(status.pid) in results[0].message
    finding = judge_version(status_reply(commit="a1"), "0.1.0", "a1")
    assert (finding.status, finding.message) == ("pass", "both are 0.1.0 (a1)")


def test_a_daemon_of_another_build_is_to_be_restarted() -> None:
    builds = {("9.9", "a1"): "a1", ("0.1.0", "b2"): "a1", ("0.1.0", "unknown"): "a1", ("0.1.0", "a1"): ""}
    for (version, commit), theirs in builds.items():
        finding = judge_version(status_reply(commit=theirs), version, commit)
        assert (finding.status, "Restart the daemon" in finding.hint) == ("warn", True), finding


def test_builds_of_unknown_commits_are_said_to_be_unknown() -> None:
    finding = judge_version(status_reply(commit="unknown"), "0.1.0", "unknown")
    assert (finding.status, finding.message) == ("pass", "both are 0.1.0 (commit unknown)")


async def test_no_daemon_is_a_warning_that_says_how_to_start_one() -> None:
    contact = Contact(socket="/s", refusal=GONE)
    answers, version = await run_checks(ASKED, machine(contact=contact))
    assert (answers.status, answers.message, version.status) == ("warn", "no daemon runs", "skip")
    assert "agentctx serve" in answers.hint
    assert not contact.is_running


def test_an_unresponsive_daemon_with_our_data_fails_with_its_pid() -> None:
    for refusal in (GONE, DeadlineExceeded("It did not answer within 10 s.")):
        contact = Contact(socket="/s", refusal=refusal, lock_refusal=HELD)
        finding = judge_answer(contact)
        assert finding.status == "fail"
        assert "pid 7" in finding.detail
        assert refusal.message in finding.detail
        assert contact.is_running


def test_a_daemon_listening_elsewhere_is_named() -> None:
    contact = Contact(socket="/s", refusal=GONE, lock_refusal=HELD, other_socket="/other")
    finding = judge_answer(contact)
    assert (finding.status, "--socket /other" in finding.hint) == ("fail", True)


def test_a_socket_that_is_closed_to_us_is_a_failure() -> None:
    refusal = DaemonUnreachable("Permission denied: this user may not connect to /s.", hint="Be another.")
    finding = judge_answer(Contact(socket="/s", refusal=refusal, is_closed=True))
    assert (finding.status, finding.hint) == ("fail", "Be another.")


def test_a_slow_daemon_is_a_failure() -> None:
    assert judge_answer(Contact(socket="/s", refusal=DeadlineExceeded("slow"))).status == "fail"


def test_an_unreadable_lock_means_no_daemon() -> None:
    contact = Contact(socket="/s", refusal=GONE, lock_refusal=ConfigInvalid("cannot be opened"))
    assert not contact.is_running


async def test_an_error_is_an_answer() -> None:
    refusal = StorageCorrupt("the database could not do this (SQLITE_CORRUPT)")
    refusal.request_id = "r-1"
    contact = Contact(socket="/s", refusal=refusal, lock_refusal=HELD)
    assert contact.has_answered
    answers, version = await run_checks(ASKED, machine(contact=contact))
    assert (answers.status, version.status) == ("fail", "skip")
    assert answers.message == f"a daemon answers on /s, but not with its status: {refusal.message}"


def test_an_error_of_a_daemon_with_other_data_is_ignored() -> None:
    refusal = StorageCorrupt("damaged")
    refusal.request_id = "r-1"
    assert not Contact(socket="/s", refusal=refusal).has_answered
    assert not Contact(socket="/s", refusal=refusal, lock_refusal=HELD, other_socket="/other").has_answered
    assert not Contact(socket="/s", refusal=DeadlineExceeded("slow"), lock_refusal=HELD).has_answered


STARTED = "2026-11-21T08:00:00.000Z"
NOW = parse_time(STARTED, now=0) + 1_000
RECORD = StartRecord(state="ready", version="1", pid=7, socket="/s", started=STARTED, ready=STARTED)


@pytest.mark.parametrize(
    ("changes", "is_running", "status", "said"),
    [
        ({}, True, "pass", "ready since"),
        ({}, False, "warn", "ended without stopping cleanly"),
        ({"state": "stopped", "ended": STARTED}, False, "pass", "stopped"),
        ({"state": "starting", "ready": None}, True, "pass", "starting since"),
        ({"state": "starting", "ready": None}, False, "warn", "never became ready"),
        (
            {"state": "failed", "ready": None, "code": "c", "message": "no disk"},
            False,
            "warn",
            "failed: no disk (c)",
        ),
        ({"state": "failed", "code": "c", "message": "a bug"}, False, "warn", "died: a bug (c)"),
    ],
)
def test_the_record_is_interpreted(
    changes: dict[str, Any], is_running: bool, status: CheckStatus, said: str
) -> None:
    finding = judge_start(replace(RECORD, **changes), is_running=is_running, now=NOW)
    assert finding.status == status
    assert said in finding.message
    assert bool(finding.hint) == (status == "warn")


def test_a_start_that_takes_too_long_is_warned_of() -> None:
    record = replace(RECORD, state="starting", ready=None)
    finding = judge_start(record, is_running=True, now=NOW + SLOW_START_MS)
    assert (finding.status, "kill 7" in finding.hint) == ("warn", True)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None
    (tmp_path / RECORD_NAME).write_text(RECORD.to_json(), encoding="utf-8")
    assert read_record(tmp_path) == RECORD


def test_a_record_of_a_newer_version_is_read(tmp_path: Path) -> None:
    text = RECORD.to_json().replace("{", '{"new_field": 1,', 1)
    (tmp_path / RECORD_NAME).write_text(text, encoding="utf-8")
    assert read_record(tmp_path) == RECORD


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"state": "ready"}'])
async def test_an_invalid_record_is_a_warning(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD_NAME).write_text(text, encoding="utf-8")
    (result,) = await run_checks(["daemon.last_start"], machine(data_dir=tmp_path))
    assert (result.status, "is not readable" in result.message) == ("warn", True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@given(st.dictionaries(st.sampled_from(list(StartRecord.__dataclass_fields__)), JSON))
def test_any_json_is_a_record_or_a_value_error(values: dict[str, Any]) -> None:
    try:
        record = record_of(values)
    except ValueError:
        return
    judge_start(record, is_running=False, now=NOW)
