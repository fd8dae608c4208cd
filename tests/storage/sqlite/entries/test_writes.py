"""Old idempotency keys are forgotten, whatever the ids of their entries; a copy keeps every version."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from agentctx.storage.copying import CopiedVersion, VersionKey
from agentctx.storage.file.driver import Connection
from agentctx.storage.forgetting import ForgetRequests
from agentctx.storage.ids import first_id, new_id
from agentctx.storage.records import Change, IdempotencyKey, SaveOutcome
from agentctx.storage.saving import remember
from agentctx.storage.sqlite import sql
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.entries import writes
from agentctx.storage.versions import MAX_VERSIONS
from agentctx_testing.drafts import START_MS, keyless

HOUR_MS = 3_600_000
OLD = START_MS - 25 * HOUR_MS
BEFORE = START_MS - 24 * HOUR_MS


def claim(conn: Connection, entry: str, created: int) -> None:
    saved = SaveOutcome(id=entry, version=1, change=Change.CREATED)
    sql.execute(conn, remember(IdempotencyKey(1, entry, b"digest"), saved, created))


def entries_with_a_key(conn: Connection) -> set[str]:
    return {row[0] for row in conn.execute("SELECT entry FROM idempotency")}


async def test_keys_are_forgotten_by_their_own_time(tmp_path: Path) -> None:
    old, new = new_id(OLD, "default"), new_id(START_MS, "default")
    long_known = new_id(OLD - HOUR_MS, "default")
    storage = await SqliteStorage.open(tmp_path / "agentctx.db")
    try:
        for entry, created in (
            (old, OLD),
            (new, START_MS),
            (long_known, START_MS),
            ("imported", OLD),
            ("0", OLD),
        ):
            await storage.db.writer.run(partial(claim, entry=entry, created=created))
        forget = partial(writes.forget_requests, wanted=ForgetRequests(BEFORE, START_MS))
        await storage.db.writer.run(forget)
        assert await storage.db.writer.run(entries_with_a_key) == {new, long_known}
    finally:
        await storage.close()


async def test_a_copied_entry_keeps_its_versions_even_if_a_save_would_remove_some(tmp_path: Path) -> None:
    entry, last = new_id(1, "default"), MAX_VERSIONS + 2
    versions = [
        CopiedVersion(
            key=VersionKey(entry, number),
            live=number == last,
            draft=keyless(f"Version {number}.", spans=()),
            created=1,
            updated=number,
            chunks=(),
        )
        for number in range(1, last + 1)
    ]
    storage = await SqliteStorage.open(tmp_path / "agentctx.db")
    try:
        await storage.copying.put(versions)
        found, _ = await storage.entries.history(entry, limit=2 * last)
        assert [each.version for each in reversed(found)] == list(range(1, last + 1))
    finally:
        await storage.close()


@pytest.mark.parametrize("now", [0, 1, START_MS, 2**48 - 1])
def test_ids_of_a_time_sort_behind_its_first_id_and_before_that_of_the_next(now: int) -> None:
    assert first_id(now) < new_id(now, "default")
    if now + 1 < 2**48:
        assert new_id(now, "default") < first_id(now + 1)
