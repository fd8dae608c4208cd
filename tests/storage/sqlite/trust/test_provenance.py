"""What is recorded of where an entry comes from, and what that costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from agentctx.storage.sqlite.engine import SqliteStorage
from tests.storage.conformance import save
from tests.storage.drafts import keyless

A_STEP = 10
"""Instructions of SQLite's machine."""


async def steps_of(storage: SqliteStorage, work: Callable[[], Awaitable[object]]) -> int:
    """How many steps the writer's SQLite takes for it: a measure that no machine's speed is in."""
    taken = 0

    def tick() -> int:
        nonlocal taken
        taken += 1
        return 0

    await storage.db.writer.run(lambda conn: conn.set_progress_handler(tick, A_STEP))
    await work()
    await storage.db.writer.run(lambda conn: conn.set_progress_handler(None, A_STEP))
    return taken


async def test_what_is_made_of_an_entry_is_saved_as_fast_among_many(tmp_path: Path) -> None:
    """A planner left alone would read every entry of the namespace for the trust of one."""
    storage = await SqliteStorage.open(tmp_path / "agentctx.db")
    try:
        source = (await save(storage, keyless("the first"))).id

        async def derive() -> None:
            await save(storage, keyless("a summary", derived_from=(source,)))

        among_few = await steps_of(storage, derive)
        await asyncio.gather(*(save(storage, keyless(f"number {number}")) for number in range(1_000)))
        assert await steps_of(storage, derive) < 2 * among_few
    finally:
        await storage.close()
