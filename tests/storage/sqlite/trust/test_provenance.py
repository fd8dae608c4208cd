"""The cost of recording provenance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_testing.drafts import keyless, save

INSTRUCTIONS_PER_STEP = 10
"""In SQLite's virtual machine."""


async def count_steps(storage: SqliteStorage, work: Callable[[], Awaitable[object]]) -> int:
    """Return how many steps the writer's SQLite takes: a measure that does not depend on the machine."""
    taken = 0

    def tick() -> int:
        nonlocal taken
        taken += 1
        return 0

    await storage.db.writer.run(lambda conn: conn.set_progress_handler(tick, INSTRUCTIONS_PER_STEP))
    await work()
    await storage.db.writer.run(lambda conn: conn.set_progress_handler(None, INSTRUCTIONS_PER_STEP))
    return taken


async def test_saving_a_derived_entry_costs_the_same_in_a_large_namespace(tmp_path: Path) -> None:
    """Left to itself, the planner would read every entry of the namespace."""
    storage = await SqliteStorage.open(tmp_path / "agentctx.db")
    try:
        source = (await save(storage, keyless("the first"))).id

        async def derive() -> None:
            await save(storage, keyless("a summary", derived_from=(source,)))

        among_few = await count_steps(storage, derive)
        await asyncio.gather(*(save(storage, keyless(f"number {number}")) for number in range(1_000)))
        assert await count_steps(storage, derive) < 2 * among_few
    finally:
        await storage.close()
