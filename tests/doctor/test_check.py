from __future__ import annotations

import threading

import pytest

from agentctx.doctor.check import blocking, failed, passed, skipped, warned


async def test_what_blocks_runs_in_a_thread_that_does_not_keep_the_program_alive() -> None:
    thread = await blocking(threading.current_thread)()
    assert thread is not threading.main_thread()
    assert thread.daemon


async def test_what_it_raises_is_raised_where_it_is_awaited() -> None:
    def look() -> None:
        raise PermissionError(13, "Permission denied", "/secret")

    with pytest.raises(PermissionError, match="/secret"):
        await blocking(look)()


def test_trouble_is_what_somebody_should_look_at() -> None:
    assert [finding.is_trouble for finding in (passed("a"), skipped("a"))] == [False, False]
    assert [finding.is_trouble for finding in (warned("a", hint="b"), failed("a", hint="b"))] == [True, True]
