"""The background work after a revocation or a release, against a storage with prescribed results."""

from __future__ import annotations

import asyncio
from typing import cast

from agentctx.errors import StorageFailed
from agentctx.service.release_worker import LINGER_S, ReleaseWorker
from agentctx.storage.records import Job
from agentctx.storage.trust import SettledRows
from agentctx.storage.trust_storage import TrustStorage

JOB = Job(id=1, chunk=1, space=1, hash=b"", text="a", entry="e", collection="knowledge")
NOTHING = SettledRows(0)


class Script:
    """A storage whose steps have prescribed results, and the calls of the worker in order."""

    def __init__(self, *results: SettledRows | StorageFailed) -> None:
        self.results = list(results)
        self.calls: list[str] = []
        self.failed, self.finished = asyncio.Event(), asyncio.Event()

    async def settle(self, *, embed: bool, limit: int) -> SettledRows:
        self.calls.append("step")
        result = self.results.pop(0)
        if not self.results:
            self.finished.set()
        if isinstance(result, StorageFailed):
            self.failed.set()
            raise result
        return result

    async def sleep(self, seconds: float) -> None:
        self.calls.append("linger" if seconds == LINGER_S else "give way")
        await asyncio.sleep(0)

    def release_worker(self) -> ReleaseWorker:
        return ReleaseWorker(
            cast("TrustStorage", self),
            embed=True,
            jobs_are_due=lambda: self.calls.append("jobs are due"),
            sleep=self.sleep,
        )


async def test_the_queue_learns_of_jobs_and_saves_get_a_turn_after_each_step() -> None:
    script = Script(SettledRows(50), SettledRows(3, jobs=(JOB,)), NOTHING)
    await script.release_worker().settle()
    assert script.calls == ["step", "give way", "step", "jobs are due", "give way", "step"]


async def test_a_start_settles_what_an_earlier_run_left() -> None:
    script = Script(SettledRows(1), NOTHING)
    running = asyncio.create_task(script.release_worker().run())
    async with asyncio.timeout(10):
        await script.finished.wait()
    running.cancel()
    assert script.calls == ["linger", "step", "give way", "step"]


async def test_after_a_failure_the_next_request_resumes() -> None:
    script = Script(StorageFailed("full"), NOTHING)
    release_worker = script.release_worker()
    running = asyncio.create_task(release_worker.run())
    async with asyncio.timeout(10):
        await script.failed.wait()
        release_worker.notify()
        await script.finished.wait()
    running.cancel()
    assert script.calls == ["linger", "step", "linger", "step"]
