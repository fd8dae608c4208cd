from __future__ import annotations

from agentctx.client.transport import ClosedToUser
from agentctx.doctor.contact import Contact, contact_checks, judge_answer, judge_version
from agentctx.doctor.runner import run_checks
from agentctx.errors import AlreadyRunning, ConfigInvalid, DaemonUnreachable, DeadlineExceeded, StorageCorrupt
from tests.client.stub_daemon import status_reply

GONE = DaemonUnreachable("No daemon answers on /s.")
HELD = AlreadyRunning("Another agentctx daemon (pid 7) has locked /d/agentctx.lock.")


async def test_a_daemon_of_this_build_is_well() -> None:
    status = status_reply(commit="a1")
    contact = Contact(socket="/s", status=status)
    results = await run_checks(contact_checks(contact, version=status.version, commit="a1"))
    assert [result.status for result in results] == ["pass", "pass"]
    assert str(status.pid) in results[0].message
    assert results[1].message == "both are 0.1.0 (a1)"


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
    answers, version = await run_checks(contact_checks(contact, version="1", commit="a1"))
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
    refusal = ClosedToUser("Permission denied: this user may not connect to /s.", hint="Be another.")
    finding = judge_answer(Contact(socket="/s", refusal=refusal))
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
    answers, version = await run_checks(contact_checks(contact, version="1", commit="a1"))
    assert (answers.status, version.status) == ("fail", "skip")
    assert answers.message == f"a daemon answers on /s, but not with its status: {refusal.message}"


def test_an_error_of_a_daemon_with_other_data_is_ignored() -> None:
    refusal = StorageCorrupt("damaged")
    refusal.request_id = "r-1"
    assert not Contact(socket="/s", refusal=refusal).has_answered
    assert not Contact(socket="/s", refusal=refusal, lock_refusal=HELD, other_socket="/other").has_answered
    assert not Contact(socket="/s", refusal=DeadlineExceeded("slow"), lock_refusal=HELD).has_answered
