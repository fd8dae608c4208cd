"""Frequent queries find their rows through an index, already in the right order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from agentctx.storage import forgetting
from agentctx.storage.faults import Faults, ReadContext
from agentctx.storage.file.driver import Connection
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.entries import lookup
from agentctx.storage.sqlite.search.vector_search import narrow
from agentctx.storage.sqlite.statements import follow
from agentctx.storage.steps import Steps
from agentctx_testing.drafts import ALL, START_MS, draft

AT = ReadContext(START_MS, Faults())
ONE = replace(ALL, collections=("knowledge",))
SEVERAL = replace(ALL, collections=("knowledge", "learning"))


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", readers=1)
    yield opened
    await opened.close()


def plan_of(work: Callable[[Connection], object], conn: Connection) -> list[str]:
    """Return the query plan steps of every statement that a function runs."""
    statements: list[str] = []
    conn.set_trace_callback(statements.append)
    try:
        work(conn)
    finally:
        conn.set_trace_callback(None)
    asked = [each for each in statements if each.startswith(("SELECT", "DELETE", "UPDATE"))]
    return [step[3] for each in asked for step in conn.execute(f"EXPLAIN QUERY PLAN {each}")]


async def plan_of_steps(storage: SqliteStorage, steps: Steps[object]) -> list[str]:
    return await storage.db.writer.run(partial(plan_of, lambda conn: follow(conn, steps)))


@pytest.mark.parametrize("with_content", [True, False])
@pytest.mark.parametrize("wanted", [ALL, ONE, SEVERAL, replace(ALL, session="s-1"), replace(ALL, agent="a")])
async def test_a_page_is_read_in_index_order(
    storage: SqliteStorage, wanted: Filter, with_content: bool
) -> None:
    page = partial(lookup.page, at=AT, wanted=wanted, limit=20, with_content=with_content)
    plan = await storage.db.readers.run(partial(plan_of, page))
    index = "entries_page (namespace=? AND collection=?" if wanted is ONE else "entries_order (namespace=?"
    assert f"SEARCH e USING INDEX {index} AND id<?)" in plan
    assert not any("TEMP B-TREE" in step for step in plan)


async def test_versions_are_read_in_index_order(storage: SqliteStorage) -> None:
    saved = await storage.entries.save(draft(), embed=True)
    page = partial(lookup.history, at=AT, entry_id=saved.id, limit=20)
    plan = await storage.db.readers.run(partial(plan_of, page))
    assert any("(id=? AND version<?)" in step for step in plan)
    assert not any("TEMP B-TREE" in step for step in plan)


async def test_forgetting_an_entry_scans_no_table(storage: SqliteStorage) -> None:
    saved = await storage.entries.save(draft(), embed=True)
    plan = await plan_of_steps(storage, forgetting.delete(saved.id, now=START_MS))
    assert "SEARCH idempotency USING INDEX idempotency_entry (entry=?)" in plan
    assert not any(step.startswith(("SCAN idempotency", "SCAN entries", "SCAN chunks")) for step in plan)


async def test_sweeping_scans_no_table(storage: SqliteStorage) -> None:
    sweep = forgetting.sweep(now=START_MS, forget_before=START_MS, limit=10)
    plan = await plan_of_steps(storage, sweep)
    assert [step for step in plan if step.startswith("SEARCH idempotency")]
    assert not any(step.startswith("SCAN") for step in plan)


async def test_a_filter_on_a_collection_uses_its_index(storage: SqliteStorage) -> None:
    plan = await storage.db.readers.run(
        partial(plan_of, lambda conn: narrow(conn, replace(ONE, agent="a"), now=START_MS))
    )
    assert "SEARCH e USING INDEX entries_page (namespace=? AND collection=?)" in plan
