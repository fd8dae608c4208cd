from __future__ import annotations

import threading

import pytest

from agentctx.doctor.check import failed, in_thread, passed, skipped, warned


async def test_blocking_work_runs_in_a_daemon_thread() -> None:
    thread = await in_thread(threading.current_thread)
    assert thread is not threading.main_thread()
    assert thread.daemon


async def test_its_error_is_raised_to_the_awaiter() -> None:
    def look() -> None:
        raise PermissionError(13, "Permission denied", "/secret")

    with pytest.raises(PermissionError, match="/secret"):
        await in_thread(look)


def test_warnings_and_failures_are_trouble() -> None:
    assert [finding.is_trouble for finding in (passed("a"), skipped("a"))] == [False, False]
    assert [finding.is_trouble for finding in (warned("a", hint="b"), failed("a", hint="b"))] == [True, True]
