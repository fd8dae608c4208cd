"""A forgotten text is in no object of the daemon's process, however it was used before."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from agentctx.daemon.build import Core
from agentctx.embedding.queue.maintenance import PROMISED_S
from agentctx.wire import ContextRequest, SearchRequest
from tests.embedding.queue.scripted_provider import ScriptedProvider
from tests.running_core import ME, running_core, save

FAR_OFF = 2**60


def canary() -> str:
    """Build the text afresh on each use, so that the test itself does not keep it."""
    return "-".join(f"zq{number}x" for number in range(41, 47))


def owners_of_canary() -> list[str]:
    """Return the types of objects, and the functions of other threads, that refer to the canary."""
    gc.collect()
    wanted, found = canary(), []
    for owner, text in _strings():
        if wanted in text:
            found.append(type(owner).__name__)
    for name, text in _strings_of_threads():
        if wanted in text:
            found.append(f"{name}()")
    return found


def _strings() -> Iterator[tuple[object, str]]:
    for owner in gc.get_objects():
        for text in _within(owner):
            yield owner, text


def _within(owner: object) -> Iterator[str]:
    """Yield the strings an object refers to, also through containers that the collector does not track."""
    for each in gc.get_referents(owner):
        if isinstance(each, str | bytes):
            yield each if isinstance(each, str) else each.decode("utf-8", "replace")
        elif isinstance(each, tuple | dict) and not gc.is_tracked(each):
            yield from _within(each)


def _strings_of_threads() -> Iterator[tuple[str, str]]:
    for thread, top in sys._current_frames().items():
        frame: FrameType | None = top if thread != threading.get_ident() else None
        while frame is not None:
            for text in _within(dict(frame.f_locals)):
                yield frame.f_code.co_qualname, text
            frame = frame.f_back


async def use_entry(core: Core) -> str:
    """Save, read, search and inject an entry whose vector is pending; return its id."""
    older = f"Older: {canary()}"
    await save(core, key="k", content=older)
    entry = await save(core, key="k", content=f"The word is {canary()}.", session="s")
    await core.entries.get(entry.id, ME)
    await core.entries.versions(entry.id, ME, limit=50)
    await core.questions.search(SearchRequest(query="which word is it"), ME)
    await core.questions.context(ContextRequest(query="the word is", position="system"), ME)
    await core.questions.context(ContextRequest(query="word --print", action="run"), ME)
    return entry.id


async def test_no_object_refers_to_a_forgotten_text(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with running_core(tmp_path, provider) as core:
        assert core.lanes is not None
        await core.lanes.leading.builder.served()
        core.lanes.leading.queue._breaker.hold(FAR_OFF, "the provider asked for a pause")
        entry_id = await use_entry(core)
        assert "Job" in owners_of_canary()
        await core.forgetting.forget(entry_id, ME)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROMISED_S):
                while not await core.storage.upkeep.tidy() or owners_of_canary():  # noqa: ASYNC110 - nothing tells
                    await asyncio.sleep(0)
        assert owners_of_canary() == []
