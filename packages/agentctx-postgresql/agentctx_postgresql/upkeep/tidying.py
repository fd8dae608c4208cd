"""Purge deleted rows from tables and indexes, and from unused space of their files on request."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from agentctx.errors import DeadlineExceeded
from agentctx.storage.upkeep import REWRITE_WAIT_S
from agentctx_postgresql.clock import NOW_MS
from agentctx_postgresql.connections import PostgresqlConnections
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks
from agentctx_postgresql.upkeep import leases

UNUSED_SPACE: Final = (
    "unused space of the table files, until it is overwritten; `agentctx forget --rewrite` removes it"
)
BEYOND_REACH: Final = (
    "the server's WAL, until its segments are recycled, and its archive",
    "replicas, until they have replayed the deletion",
    "dumps and base backups made before",
)
TASK: Final = "tidy"
REWRITE_LEASE_MS: Final = 3_600_000
"""A table of millions of vectors takes minutes."""
_RETRY_S: Final = 0.2
TABLES: Final = (
    "jobs",
    "chunk_words",
    "chunks",
    "entries",
    "injections",
    "idempotency",
    "flags",
    "quarantine",
    "file_states",
)
INDEXES: Final = ("chunk_words_terms", "entries_live_key")
"""Indexes that keep words and keys of deleted rows until they are rebuilt."""
QUICK_BYTES: Final = 32 * 1024 * 1024
"""An index up to this size is rebuilt immediately; larger ones once a day."""
REINDEX_EVERY_MS: Final = 86_400_000

_MARK: Final = "SELECT pg_current_xact_id()::xid::text"
# A row can be removed once no snapshot is older than its deletion.
_OLDER: Final = """SELECT EXISTS (
      SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND age(backend_xmin) > age($1::text::xid))
    OR EXISTS (SELECT 1 FROM pg_replication_slots WHERE age(xmin) > age($1::text::xid))
    OR EXISTS (SELECT 1 FROM pg_prepared_xacts WHERE age(transaction) > age($1::text::xid))"""
_REMEMBER: Final = f"""INSERT INTO progress (name, value) VALUES ('words left in indexes since', {NOW_MS})
    ON CONFLICT (name) DO NOTHING"""  # noqa: S608 - constants
_SIZE: Final = "SELECT sum(pg_relation_size(name)) FROM unnest($1::text[]::regclass[]) AS name"
_IS_DUE: Final = f"""SELECT EXISTS (SELECT 1 FROM progress
    WHERE name = 'words left in indexes since' AND value <= {NOW_MS} - $1)"""  # noqa: S608 - constants
_FORGET_REINDEX: Final = "DELETE FROM progress WHERE name = 'words left in indexes since'"
# An interrupted REINDEX CONCURRENTLY leaves an index that keeps deleted words and slows down every save.
_DROP_LEFTOVERS: Final = r"""SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %s', i.indexrelid::regclass)
    FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid
    WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace
      AND c.relname ~ '_cc(new|old)\d*$'"""


async def tidy(db: PostgresqlConnections) -> bool:
    """Vacuum if anything was deleted; False if another daemon does it or an older snapshot prevents it.

    Raises:
        StorageFailed: the server failed. Tidying stays due.
    """
    if not db.erasures.is_due.is_set():
        return True
    if not await leases.take(db, TASK):
        return False
    db.erasures.is_due.clear()  # deletions during the run set it again
    is_done = False
    try:
        is_done = await db.prepare(_vacuum)
    finally:
        if not is_done:
            db.erasures.is_due.set()
        await leases.release(db, TASK)
    return not db.erasures.is_due.is_set()


async def _vacuum(conn: Connection) -> bool:
    mark = await conn.fetchval(_MARK)
    await conn.execute(_REMEMBER)
    for table in await _tables(conn):
        await conn.execute(f"VACUUM (INDEX_CLEANUP ON, ANALYZE) {table}")
    if await conn.fetchval(_OLDER, mark):
        return False
    if await conn.fetchval(_SIZE, list(INDEXES)) <= QUICK_BYTES:
        await _reindex(conn)
    return True


async def rewrite(db: PostgresqlConnections) -> None:
    """Rewrite the tables and their indexes, so that no byte of a deleted row is left in their files.

    Raises:
        DeadlineExceeded: another daemon was tidying, or an older transaction open, for `REWRITE_WAIT_S`.
        StorageFailed, StorageFull: tables that were not rewritten are unchanged. Tidying stays due.
    """
    deadline = time.monotonic() + REWRITE_WAIT_S
    while not await leases.take(db, TASK, REWRITE_LEASE_MS):
        await _pause(deadline, "Another daemon is removing deleted data.")
    db.erasures.is_due.clear()  # deletions during the run set it again
    try:
        await db.prepare(_rewrite)
    except BaseException:
        db.erasures.is_due.set()
        raise
    finally:
        await leases.release(db, TASK)


async def _rewrite(conn: Connection) -> None:
    await _wait_for_older(conn)
    for table in await _tables(conn):
        await conn.execute(f"VACUUM (FULL, ANALYZE) {table}")
    await _wait_for_older(conn)
    await conn.execute("VACUUM FULL pg_statistic")  # had words of forgotten texts until ANALYZE
    await conn.execute(_FORGET_REINDEX)


async def _wait_for_older(conn: Connection) -> None:
    """Wait until no transaction can still see what was deleted before: it would survive a rewrite."""
    mark = await conn.fetchval(_MARK)
    deadline = time.monotonic() + REWRITE_WAIT_S
    while await conn.fetchval(_OLDER, mark):
        await _pause(deadline, "A transaction that can see deleted data is still open on the server.")


async def _pause(deadline: float, reason: str) -> None:
    if time.monotonic() > deadline:
        raise DeadlineExceeded(reason, hint="Run `agentctx forget --rewrite` again when it has ended.")
    await asyncio.sleep(_RETRY_S)


async def _tables(conn: Connection) -> list[str]:
    """Return the tables that lose rows when an entry is forgotten."""
    return [*TABLES, *(f"vec_{space:d}" for space in await chunks.prepared(conn))]


async def reindex_if_due(conn: Connection) -> bool:
    """Rebuild large indexes that have kept deleted words for a day. Must not run in a transaction."""
    is_due = await conn.fetchval(_IS_DUE, REINDEX_EVERY_MS)
    if is_due:
        await _reindex(conn)
    return bool(is_due)


async def _reindex(conn: Connection) -> None:
    for (statement,) in await conn.fetch(_DROP_LEFTOVERS):
        await conn.execute(statement)
    for index in INDEXES:
        await conn.execute(f"REINDEX INDEX CONCURRENTLY {index}")
    await conn.execute(_FORGET_REINDEX)
