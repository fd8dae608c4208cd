"""Daemons expire entries by the server's clock, whatever their own clocks show."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agentctx.errors import NotFound
from agentctx.storage.search import Filter
from agentctx.times import Clock, wall_clock
from agentctx.wire import SearchRequest
from agentctx_postgresql.clock import ServerClock
from agentctx_testing.drafts import keyless
from tests.running_core import ME, running_core, save

HOURS_MS = 3 * 3_600_000
DELAY_MS = 600_000


def clock_off_by(ahead: int) -> Clock:
    return lambda: wall_clock() + ahead


class SlowServer:
    """A connection to a server whose clock shows `now`; each reply takes `takes` milliseconds."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.elapsed = 0.0
        self.takes = (0.0, 0.0)

    async def fetchval(self, _: str) -> int:
        there, back = self.takes
        self.now, self.elapsed = self.now + there, self.elapsed + there
        answer = int(self.now)
        self.now, self.elapsed = self.now + back, self.elapsed + back
        return answer


async def test_the_clock_tracks_the_server_between_and_after_comparisons() -> None:
    server = SlowServer()
    clock = ServerClock(lambda: server.elapsed)
    await clock.compare(server)
    server.elapsed += 500
    assert clock() == 1_000_500
    server.now += 500
    server.takes = (40, 60)
    await clock.compare(server)
    assert clock() == server.now, "a slow reply does not reduce precision"
    server.now -= 10_000
    await clock.compare(server)
    assert abs(clock() - server.now) <= 100, "the server's clock was set back"


async def test_a_daemon_with_a_wrong_clock_shows_and_removes_the_same_entries(
    database: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        early, right, late = [
            await stack.enter_async_context(
                running_core(
                    tmp_path / name,
                    None,
                    clock=clock_off_by(ahead),
                    storage={"url": database},
                )
            )
            for name, ahead in (("early", -HOURS_MS), ("right", 0), ("late", HOURS_MS))
        ]
        cores = (early, right, late)
        living = [
            (await save(core, key=f"k{number}", content="living", ttl="10m")).id
            for number, core in enumerate(cores)
        ]
        now = wall_clock()
        entries = [await right.storage.entries.get(each) for each in living]
        ends = [entry.expires for entry in entries if entry is not None and entry.expires is not None]
        assert len(ends) == 3
        assert all(abs(end - now - DELAY_MS) < DELAY_MS / 2 for end in ends)
        over = (
            await right.storage.entries.save(keyless("living no more", expires=now - 60_000), embed=False)
        ).id
        for core in cores:
            assert {(await core.entries.get(each, ME)).id for each in living} == set(living)
            found = await core.questions.search(SearchRequest(query="living"), ME)
            assert {hit.id for hit in found.results} == set(living)
            listed, _ = await core.storage.entries.list_entries(Filter(namespace="default"), limit=9)
            assert {each.id for each in listed} == set(living)
            with pytest.raises(NotFound):
                await core.entries.get(over, ME)
        assert [await core.storage.entries.sweep() for core in (late, early, right)] == [1, 0, 0]
        assert await asyncio.gather(*(right.storage.entries.get(each) for each in living)) == entries
