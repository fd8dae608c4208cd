"""Checks and repairs, and the removal of every trace of deleted data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from agentctx.errors import StorageCorrupt
from agentctx.storage.chunk_texts import ChunkTexts, Piece, stored_cues
from agentctx.storage.records import Census, SpaceFault, SpaceState
from agentctx.storage.upkeep import UpkeepStorage
from agentctx.storage.words import TERM_RULES
from agentctx.wire.wording import listed
from agentctx_postgresql import locks
from agentctx_postgresql.connections import (
    CHECK_TIMEOUT_S,
    PostgresqlConnections,
    PostgresqlPart,
)
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.search.terms import Words, words_of
from agentctx_postgresql.statements import PostgresqlFollower
from agentctx_postgresql.upkeep import proofs, repair, tidying

MAX_LINES: Final = 20

_TABLES: Final = """SELECT relname FROM pg_class
    WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY relname"""
_READ: Final = "SELECT count(*) FROM (SELECT * FROM {table} OFFSET 0) every"
_CHECK: Final = "SELECT bt_index_check({index}::oid::regclass, heapallindexed => true)"
# An index that is being rebuilt is not valid yet, or no longer.
_INDEXES: Final = """SELECT c.oid::bigint, c.relname FROM pg_class c
    JOIN pg_am ON pg_am.oid = c.relam AND amname = 'btree'
    JOIN pg_index i ON i.indexrelid = c.oid AND i.indisvalid
    WHERE c.relkind = 'i' AND c.relnamespace = current_schema()::regnamespace
      AND EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'amcheck') ORDER BY c.relname"""
_FOREIGN: Final = """SELECT kind || ' ' || name || ' on ' || relname || ' is not agentctx''s' FROM (
      SELECT 'trigger' AS kind, tgname AS name, tgrelid AS relation FROM pg_trigger WHERE NOT tgisinternal
      UNION ALL SELECT 'rule', rulename, ev_class FROM pg_rewrite WHERE rulename <> '_RETURN'
      UNION ALL SELECT 'policy', polname, polrelid FROM pg_policy) acting
    JOIN pg_class c ON c.oid = relation
    WHERE relnamespace = current_schema()::regnamespace ORDER BY kind, name"""
_IS_INDEX: Final = "SELECT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = $1::bigint::oid AND indisvalid)"
_SPACES: Final = (
    "SELECT id, to_regclass('vec_' || id) IS NOT NULL FROM spaces WHERE dimension IS NOT NULL AND state <> $1"
)
_NO_VECTORS: Final = """SELECT count(*) FROM vec_{space:d}
    WHERE NOT (l2_norm(embedding) > 0 AND l2_norm(embedding) < 'Infinity')"""
_MISPLACED: Final = """SELECT count(*) FROM vec_{space:d} v JOIN chunks c ON c.id = v.chunk
    JOIN entries e ON e.seq = c.entry WHERE v.namespace <> e.namespace"""


async def check_database(db: PostgresqlConnections) -> list[str]:
    """Read every table, which verifies its pages; check the indexes if amcheck is installed.

    What acts on our tables is a problem too: no migration makes triggers, rules or policies.
    """
    tables = await db.read(lambda conn: conn.fetch(_TABLES))
    indexes = await db.read(lambda conn: conn.fetch(_INDEXES))
    problems = [await _problem(db, f"table {name}", _READ.format(table=name)) for (name,) in tables]
    problems += [await _index_problem(db, *index) for index in indexes]
    problems += [each for (each,) in await db.read(lambda conn: conn.fetch(_FOREIGN))]
    return [problem for problem in problems if problem][:MAX_LINES]


async def _problem(db: PostgresqlConnections, name: str, sql: str) -> str:
    try:
        await db.read(lambda conn: conn.execute(sql), CHECK_TIMEOUT_S)
    except StorageCorrupt as error:
        return f"{name}: {error.message}"
    return ""


async def _index_problem(db: PostgresqlConnections, index: int, name: str) -> str:
    """Return the problem of an index; empty if there is none or another daemon has replaced the index."""
    problem = await _problem(db, f"index {name}", _CHECK.format(index=index))
    is_there = not problem or await db.read(lambda conn: conn.fetchval(_IS_INDEX, index))
    return problem if is_there else ""


async def rebuild_indexes(conn: Connection) -> None:
    """Rebuild every index. The connection must not be in a transaction."""
    schema = await conn.fetchval("SELECT quote_ident(current_schema())")
    await conn.execute(f"REINDEX SCHEMA CONCURRENTLY {schema}")


async def check_vectors(conn: Connection) -> list[SpaceFault]:
    """Return the faults in the vectors of each prepared space."""
    faults = []
    for space, has_table in await conn.fetch(_SPACES, SpaceState.RETIRED.value):
        if not has_table:
            faults.append(SpaceFault(space, "its table is missing"))
            continue
        if count := await conn.fetchval(_NO_VECTORS.format(space=space)):
            faults.append(SpaceFault(space, f"{count} rows contain an invalid vector"))
        if count := await conn.fetchval(_MISPLACED.format(space=space)):
            faults.append(SpaceFault(space, f"{count} vectors have another namespace than their entry"))
    return faults


ENTRIES_PER_SLICE: Final = 100

_CHUNKS: Final = """SELECT e.seq, e.id AS entry, e.namespace, e.content, e.attributes, e.labels, e.header,
      c.id, c.cue, c.start_at, c.end_at
    FROM (SELECT * FROM entries WHERE live AND seq > $1 ORDER BY seq LIMIT $2) e
    LEFT JOIN chunks c ON c.entry = e.seq ORDER BY e.seq, c.ordinal"""
_GIVEN_WORDS: Final = """unnest($1::bigint[], $2::text[], $3::tsvector[], $4::sparsevec[])
    AS made (chunk, namespace, words, weights)"""
_OTHER_WORDS: Final = f"""SELECT count(*) FROM {_GIVEN_WORDS} LEFT JOIN chunk_words kept USING (chunk)
    WHERE kept.words IS DISTINCT FROM made.words OR kept.weights <> made.weights
       OR kept.namespace <> made.namespace"""  # noqa: S608 - constants
_WRITE_WORDS: Final = f"""INSERT INTO chunk_words AS kept (chunk, namespace, words, weights)
    SELECT chunk, namespace, words, weights FROM {_GIVEN_WORDS}
    ON CONFLICT (chunk) DO UPDATE SET namespace = excluded.namespace, words = excluded.words,
      weights = excluded.weights"""  # noqa: S608 - constants
WORD_RULES: Final = "SELECT value FROM progress WHERE name = 'rules of words'"
REMEMBER_WORD_RULES: Final = """INSERT INTO progress (name, value) VALUES ('rules of words', $1)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value"""
STRAY_WORDS: Final = (
    "SELECT count(*) FROM chunk_words w WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE id = w.chunk)"
)


class WordSlice(NamedTuple):
    """The number of chunks written or found wrong in a slice, and its last entry; None at the end."""

    chunks: int
    last: int | None


async def compare_words(conn: Connection, after: int) -> WordSlice:
    """Count the chunks of a slice whose words do not match their texts."""
    rows = await conn.fetch(_CHUNKS, after, ENTRIES_PER_SLICE)
    wrong = await conn.fetchval(_OTHER_WORDS, *await _words_made(rows))
    return WordSlice(wrong, rows[-1]["seq"] if rows else None)


async def rewrite_words(conn: Connection, after: int) -> WordSlice:
    """Rebuild the words of a slice, locking its entries meanwhile."""
    entries = await conn.fetch(_CHUNKS, after, ENTRIES_PER_SLICE)
    await locks.lock_spaces_shared(conn)
    await locks.lock_entries(conn, [row["entry"] for row in entries])
    rows = await conn.fetch(_CHUNKS, after, ENTRIES_PER_SLICE)
    known = {row["entry"] for row in entries}
    made = await _words_made([row for row in rows if row["entry"] in known])
    await conn.execute(_WRITE_WORDS, *made)
    return WordSlice(len(made[0]), entries[-1]["seq"] if entries else None)


async def _words_made(rows: Sequence[Any]) -> tuple[list[int], list[str], list[bytes], list[bytes]]:
    """Return the correct columns: chunks, namespaces, words and weights."""
    chunks = [row for row in rows if row["id"] is not None]
    words: Sequence[Words] = await asyncio.to_thread(words_of, [_texts_of_chunk(row) for row in chunks])
    return (
        [row["id"] for row in chunks],
        [row["namespace"] for row in chunks],
        [each.words for each in words],
        [each.weights for each in words],
    )


def _texts_of_chunk(row: Any) -> tuple[str, str]:
    """Return the text of a chunk and its labels."""
    texts = ChunkTexts(row["content"], stored_cues(row["attributes"]), row["labels"], row["header"])
    piece = Piece(row["cue"], row["start_at"], row["end_at"])
    return texts.text(piece), texts.labels_of(piece)


class PostgresqlUpkeep(PostgresqlPart, UpkeepStorage):
    """`UpkeepStorage` on a PostgreSQL server."""

    def __init__(self, follower: PostgresqlFollower) -> None:
        super().__init__(follower.db)
        self.follower = follower
        self._tidying = asyncio.Lock()

    async def check_integrity(self) -> list[str]:
        async with self.db.one_check:
            return await check_database(self.db)

    async def repair_file(self) -> bool:
        """Rebuild the indexes; damaged tables are left to the server's operator."""
        if not await self.check_integrity():
            return False
        await self.db.prepare(rebuild_indexes)
        if left := await self.check_integrity():
            raise StorageCorrupt(
                f"The PostgreSQL server still has: {listed(left, separator='; ')}.",
                hint="Drop what is not agentctx's yourself. For damaged tables, restore a dump.",
            )
        return True

    async def check_words(self) -> str | None:
        wrong = await self._in_slices(lambda work: self.db.read(work, CHECK_TIMEOUT_S), compare_words)
        stray = await self.db.check(lambda conn: conn.fetchval(STRAY_WORDS))
        return f"the words of {wrong + stray} chunks do not match their texts" if wrong + stray else None

    async def check_vectors(self) -> list[SpaceFault]:
        return await self.db.check(check_vectors)

    async def census(self) -> Census:
        async with self.db.one_check:
            counted, following = await self.db.read(proofs.take_slice, CHECK_TIMEOUT_S)
            while following is not None:
                step = partial(proofs.take_slice, first=following)
                more, following = await self.db.read(step, CHECK_TIMEOUT_S)
                counted += more
        return counted

    async def remove_orphans(self) -> int:
        return await self.db.write(repair.remove_orphans, lambda _: self.db.erasures.note_deletion())

    async def rebuild_words(self) -> int:
        """Rebuild each row in place, so that keyword search misses nothing meanwhile."""
        await self.db.write(lambda conn: conn.execute(repair.DELETE_STRAY_WORDS))
        rebuilt = await self._in_slices(self.db.write, rewrite_words)
        await self.db.write(lambda conn: conn.execute(REMEMBER_WORD_RULES, TERM_RULES))
        return rebuilt

    async def resume_words(self) -> int | None:
        """Rebuild words that were written by earlier rules, in place; None if there are none."""
        rules = await self.db.check(lambda conn: conn.fetchval(WORD_RULES))
        return None if rules == TERM_RULES else await self.rebuild_words() or None

    async def tidy(self) -> bool:
        async with self._tidying:
            return await tidying.tidy(self.db)

    @property
    def remains(self) -> Sequence[str]:
        return (tidying.UNUSED_SPACE, *tidying.BEYOND_REACH)

    rewrite_problem = None

    async def rewrite(self) -> Sequence[str]:
        async with self._tidying:
            await tidying.rewrite(self.db)
        return tidying.BEYOND_REACH

    async def wait_for_work(self) -> None:
        await self.db.erasures.is_due.wait()

    async def _in_slices(
        self,
        run: Callable[[Callable[[Connection], Awaitable[WordSlice]]], Awaitable[WordSlice]],
        step: Callable[..., Awaitable[WordSlice]],
    ) -> int:
        """Run the step for all slices and return the total."""
        total, last = 0, -1
        while True:
            done = await run(partial(step, after=last))
            if done.last is None:
                return total
            total, last = total + done.chunks, done.last
