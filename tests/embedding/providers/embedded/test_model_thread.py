from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from agentctx.embedding.providers.embedded.model_thread import BACKGROUND_NICENESS, ModelThread, StopCheck


async def test_calls_run_one_after_another_in_one_thread() -> None:
    thread = ModelThread("model")
    seen: list[int] = []

    def work(_: StopCheck) -> int:
        seen.append(threading.get_ident())
        return len(seen)

    assert await asyncio.gather(*(thread.run(work) for _ in range(5))) == [1, 2, 3, 4, 5]
    assert len(set(seen)) == 1
    assert threading.get_ident() not in seen
    await thread.aclose()


async def test_cpu_time_includes_failed_calls() -> None:
    ticks = iter([10.0, 12.5, 20.0, 20.5])
    thread = ModelThread("model", clock=lambda: next(ticks))
    await thread.run(lambda _: None)
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda _: 1 // 0)
    assert thread.cpu_seconds == 3.0
    await thread.aclose()


async def run_until_stopped(thread: ModelThread) -> tuple[asyncio.Task[None], asyncio.Event]:
    """Start a call that ends only when stopped; return it with an event that is set at its end."""
    started, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(stopped: StopCheck) -> None:
        loop.call_soon_threadsafe(started.set)
        while not stopped():
            pass
        loop.call_soon_threadsafe(ended.set)

    task = asyncio.create_task(thread.run(work))
    await started.wait()
    return task, ended


async def test_cancelling_the_caller_stops_the_work() -> None:
    thread = ModelThread("model")
    task, ended = await run_until_stopped(thread)
    task.cancel()
    await ended.wait()
    assert await thread.run(lambda stopped: stopped()) is False
    await thread.aclose()


async def test_closing_the_thread_stops_the_work() -> None:
    thread = ModelThread("model")
    task, ended = await run_until_stopped(thread)
    await thread.aclose()
    await task
    await ended.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities per thread")
async def test_only_a_background_thread_has_low_priority() -> None:
    front, background = ModelThread("front"), ModelThread("background", background=True)

    def niceness(_: StopCheck) -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    usual = await front.run(niceness)
    assert await background.run(niceness) == min(usual + BACKGROUND_NICENESS, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) == usual
    await front.aclose()
    await background.aclose()
