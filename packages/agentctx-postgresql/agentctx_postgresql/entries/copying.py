"""`CopyStorage` on a PostgreSQL server."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from agentctx.storage.chunk_texts import content_hash
from agentctx.storage.copying import (
    DRAFT_COLUMNS,
    MARK,
    NOTHING_COPIED,
    PAGE_CHARS,
    CopiedChunk,
    CopiedJob,
    CopiedTable,
    CopiedVersion,
    CopyMark,
    CopyPage,
    Value,
    VersionKey,
    identity_of,
    jobs_of,
    version_of,
)
from agentctx.storage.records import Space
from agentctx.storage.versions import Times
from agentctx_postgresql import installation, locks, pgvector, presence
from agentctx_postgresql.connections import CHECK_TIMEOUT_S, PostgresqlPart, reads
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks, new_versions
from agentctx_postgresql.entries.new_versions import NewVersion
from agentctx_postgresql.vectors import spaces

_COLUMNS: Final = ", ".join((*DRAFT_COLUMNS, "content", "content_hash", "attributes", "created", "updated"))
_SELECT: Final = f"SELECT seq, id, version, live, {_COLUMNS} FROM entries"  # noqa: S608 - constants
_GIVEN_KEYS: Final = "unnest($1::text[], $2::int[]) AS g (entry, number)"
_FIND: Final = f"""{_SELECT} JOIN {_GIVEN_KEYS}
    ON entries.id = g.entry AND entries.version = g.number"""
_CHUNKS: Final = """SELECT entry, id, cue, start_at, end_at, hash, chunking FROM chunks
    WHERE entry = ANY ($1::bigint[]) ORDER BY entry, ordinal"""
_JOBS: Final = """SELECT chunk, space, state, attempts, not_before, last_error, created FROM jobs
    WHERE chunk = ANY ($1::bigint[])"""
_VECTORS: Final = """SELECT chunk, embedding FROM vec_{space:d}
    WHERE chunk = ANY ($1::bigint[])"""
_ROWS: Final = f"""SELECT id, version, seq FROM entries JOIN {_GIVEN_KEYS}
    ON entries.id = g.entry AND entries.version = g.number"""  # noqa: S608 - constants
_TEMPORARY: Final = 2**30
"""Added to the number of a version while the row that it replaces is still there."""
_REPLACE: Final = (
    "UPDATE chunks SET entry = $1 WHERE entry = $2",
    f"""UPDATE entries AS old SET ({_COLUMNS}, size, x) =
        (SELECT {_COLUMNS}, size, pg_current_xact_id() FROM entries WHERE seq = $2) WHERE seq = $1""",  # noqa: S608 - constants
)
_RIVALS: Final = """SELECT seq FROM entries WHERE live AND id = ANY ($1::text[])
    UNION SELECT seq FROM entries
      JOIN unnest($2::text[], $3::text[], $4::text[]) AS g (namespace, collection, key)
      USING (namespace, collection, key) WHERE live"""
"""Live versions that the schema does not allow beside other live ones."""
_ADDED_CHUNKS: Final = """SELECT entry, id, cue, start_at, end_at, hash FROM chunks
    WHERE entry = ANY ($1::bigint[]) ORDER BY entry, ordinal"""
_ADD_VECTORS: Final = """INSERT INTO vec_{space:d} (chunk, namespace, embedding)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::halfvec[])"""
_ADD_JOBS: Final = """INSERT INTO jobs (chunk, space, hash, state, attempts, not_before, last_error, created)
    SELECT * FROM unnest($1::bigint[], $2::int[], $3::bytea[], $4::text[], $5::int[], $6::bigint[],
      $7::text[], $8::bigint[])"""
_SERIAL: Final = """SELECT setval(pg_get_serial_sequence('revocations', 'id'), max(id)) FROM revocations
    HAVING max(id) IS NOT NULL"""


async def _page(conn: Connection, after: int, limit: int) -> CopyPage:
    rows: list[Any] = []
    chars = 0
    sql = f"{_SELECT} WHERE seq > $1 ORDER BY seq LIMIT $2"
    async for row in conn.cursor(sql, after, limit + 1, prefetch=50):
        if len(rows) == limit or chars > PAGE_CHARS:
            return CopyPage(*await _versions(conn, rows), rows[-1]["seq"])
        rows.append(row)
        chars += len(row["content"])
    return CopyPage(*await _versions(conn, rows), None)


async def _find(conn: Connection, keys: Sequence[VersionKey]) -> Mapping[VersionKey, CopiedVersion]:
    rows = await conn.fetch(_FIND, *_key_columns(keys))
    return {each.key: each for each in (await _versions(conn, rows))[0]}


async def _rows(
    conn: Connection, table: CopiedTable, after: Sequence[Value] | None, limit: int
) -> list[tuple[Value, ...]]:
    key = ", ".join(table.key)
    placeholders = ", ".join(f"${number}" for number in range(2, table.keys + 2))
    condition = f"WHERE ({key}) > ({placeholders})" if after else ""
    sql = f"SELECT {', '.join(table.columns)} FROM {table.source} {condition} ORDER BY {key} LIMIT $1"  # noqa: S608 - constants
    rows = await conn.fetch(sql, limit, *(after or ()))
    return [tuple(int(value) if isinstance(value, bool) else value for value in row) for row in rows]


async def _versions(
    conn: Connection, rows: Sequence[Any]
) -> tuple[tuple[CopiedVersion, ...], tuple[str, ...]]:
    cut = await _chunks(conn, [row["seq"] for row in rows])
    sound = [row for row in rows if content_hash(row["content"]) == row["content_hash"]]
    seqs = {row["seq"] for row in sound}
    damaged = tuple(row["id"] for row in rows if row["seq"] not in seqs)
    return tuple(version_of(row, row["content"], tuple(cut[row["seq"]])) for row in sound), damaged


async def _chunks(conn: Connection, seqs: Sequence[int]) -> Mapping[int, list[CopiedChunk]]:
    rows = await conn.fetch(_CHUNKS, list(seqs))
    ids = [row["id"] for row in rows]
    vectors: dict[int, dict[int, bytes]] = defaultdict(dict)
    for space in await chunks.prepared(conn):
        for chunk, vector in await conn.fetch(_VECTORS.format(space=space), ids):
            vectors[chunk][space] = vector.tobytes()
    jobs: dict[int, dict[int, CopiedJob]] = defaultdict(dict)
    for chunk, space, *job in await conn.fetch(_JOBS, ids):
        jobs[chunk][space] = CopiedJob(*job)
    found: dict[int, list[CopiedChunk]] = defaultdict(list)
    for seq, chunk, *piece in rows:
        found[seq].append(CopiedChunk._make((*piece, vectors[chunk], jobs[chunk])))
    return found


async def _put(conn: Connection, versions: Sequence[CopiedVersion], *, now: int) -> None:
    await locks.lock_spaces_shared(conn)
    replaced = await _seqs(conn, [each.key for each in versions])
    await _make_room(conn, versions, replaced.values())
    new = await asyncio.to_thread(_built, versions, replaced, now)
    await new_versions.insert_copies(conn, new)
    seqs = await _seqs(conn, [VersionKey(each.entry_id, each.version) for each in new])
    for each in versions:
        if (seq := replaced.get(each.key)) is not None:
            await _replace(conn, seq, seqs.pop(_temporary(each.key)), live=each.live)
            seqs[each.key] = seq
    await _put_chunks(conn, {seqs[each.key]: each for each in versions if each.chunks}, now=now)


async def _seqs(conn: Connection, keys: Sequence[VersionKey]) -> dict[VersionKey, int]:
    """Return the rows of the versions that exist."""
    rows = await conn.fetch(_ROWS, *_key_columns(keys))
    return {VersionKey(row["id"], row["version"]): row["seq"] for row in rows}


def _key_columns(keys: Sequence[VersionKey]) -> tuple[list[str], list[int]]:
    return [key.entry for key in keys], [key.version for key in keys]


async def _make_room(conn: Connection, versions: Sequence[CopiedVersion], replaced: Collection[int]) -> None:
    """Empty the rows to be replaced, and remove others that may not be live beside the live versions."""
    for seq in replaced:
        await chunks.remove(conn, seq)
    await conn.execute("UPDATE entries SET live = false WHERE seq = ANY ($1::bigint[])", list(replaced))
    live = [each for each in versions if each.live]
    keyed = [(each.draft.namespace, each.draft.collection, each.draft.key) for each in live if each.draft.key]
    keys = _columns(keyed) or [[], [], []]
    rivals = await conn.fetch(_RIVALS, [each.key.entry for each in live], *keys)
    await _remove_rows(conn, [row[0] for row in rivals])


def _built(versions: Sequence[CopiedVersion], replaced: Collection[VersionKey], now: int) -> list[NewVersion]:
    """Build the versions to write. Slow for long texts."""
    return [
        NewVersion(
            each.draft,
            *(_temporary(each.key) if each.key in replaced else each.key),
            Times(each.created, each.updated, now),
            chunks.build(each.key.entry, each.draft, now=now, reservation=None),
            live=each.live,
        )
        for each in versions
    ]


def _temporary(key: VersionKey) -> VersionKey:
    return key._replace(version=key.version + _TEMPORARY)


async def _replace(conn: Connection, seq: int, by: int, *, live: bool) -> None:
    """Give a row the content and the chunks of another, which is removed."""
    for statement in _REPLACE:
        await conn.execute(statement, seq, by)
    await _remove_rows(conn, [by])
    await conn.execute("UPDATE entries SET live = $2 WHERE seq = $1", seq, live)


async def _remove(conn: Connection, keys: Sequence[VersionKey]) -> None:
    await _remove_rows(conn, [*(await _seqs(conn, keys)).values()])


async def _remove_rows(conn: Connection, seqs: Sequence[int]) -> None:
    for seq in seqs:
        await chunks.remove(conn, seq)
        await conn.execute("DELETE FROM entries WHERE seq = $1", seq)


async def _set_mark(conn: Connection, mark: CopyMark | None) -> None:
    if mark is None:
        await conn.execute("DELETE FROM installation WHERE name = $1", MARK)
    else:
        await installation.remember(conn, MARK, mark.encoded())


async def _put_chunks(conn: Connection, added: Mapping[int, CopiedVersion], *, now: int) -> None:
    """Write the vectors and jobs of the chunks of new rows."""
    enabled = [row[0] for row in await conn.fetch("SELECT id FROM spaces WHERE enabled ORDER BY id")]
    originals = {(seq, *each[:4]): each for seq, version in added.items() for each in version.chunks}
    vectors: dict[int, list[tuple[int, str, bytes]]] = defaultdict(list)
    jobs = []
    for seq, chunk, *piece, digest in await conn.fetch(_ADDED_CHUNKS, list(added)):
        copied = originals.get((seq, *piece, digest), NOTHING_COPIED)
        for space, vector in copied.vectors.items():
            half = pgvector.encode_halfvec(np.frombuffer(vector, dtype="<f4"))
            vectors[space].append((chunk, added[seq].draft.namespace, half))
        jobs += [(chunk, space, digest, *job) for space, job in jobs_of(copied, enabled, now).items()]
    for space, rows in vectors.items():
        sql = _ADD_VECTORS.format(space=space)
        await conn.execute(sql, *_columns(rows))
    if jobs:
        await conn.execute(_ADD_JOBS, *_columns(jobs))


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def _put_rows(conn: Connection, table: CopiedTable, rows: Sequence[Sequence[Value]]) -> None:
    placeholders = ", ".join(f"${number}" for number in range(1, len(table.columns) + 1))
    head = f"INSERT INTO {table.name} ({', '.join(table.columns)}) OVERRIDING SYSTEM VALUE"
    sql = f"{head} VALUES ({placeholders}) {table.on_conflict}"
    flags = [table.columns.index(name) for name in table.flags]
    values = [[bool(value) if number in flags else value for number, value in enumerate(row)] for row in rows]
    await conn.executemany(sql, values)
    if table.name == "revocations":
        await conn.execute(_SERIAL)


class PostgresqlCopying(PostgresqlPart):
    """`CopyStorage` on a PostgreSQL server."""

    page = reads(_page, timeout_s=CHECK_TIMEOUT_S)
    find = reads(_find, timeout_s=CHECK_TIMEOUT_S)
    rows = reads(_rows, timeout_s=CHECK_TIMEOUT_S)

    async def present_daemon(self) -> str | None:
        return await self.db.read(lambda conn: presence.other_daemon(conn, ""))

    async def identity(self) -> bytes:
        return identity_of(await self.db.read(lambda conn: installation.find(conn, installation.SECRET)))

    async def spaces(self) -> Sequence[Space]:
        return await self.db.read(spaces.all_spaces)

    async def mark(self) -> CopyMark | None:
        found = await self.db.read(lambda conn: installation.find(conn, MARK))
        return None if found is None else CopyMark.decode(found)

    async def set_mark(self, mark: CopyMark | None) -> None:
        await self.db.write(lambda conn: _set_mark(conn, mark))

    async def remove(self, keys: Sequence[VersionKey]) -> None:
        await self.db.write(lambda conn: _remove(conn, keys))

    async def remove_rows(self, table: CopiedTable, keys: Sequence[Sequence[Value]]) -> None:
        placeholders = ", ".join(f"${number}" for number in range(1, table.keys + 1))
        sql = f"DELETE FROM {table.name} WHERE ({', '.join(table.key)}) = ({placeholders})"  # noqa: S608 - constants
        await self.db.write(lambda conn: conn.executemany(sql, keys))

    async def put(self, versions: Sequence[CopiedVersion]) -> None:
        now = self.db.clock()
        await self.db.write(lambda conn: _put(conn, versions, now=now))

    async def put_spaces(self, originals: Sequence[Space]) -> Mapping[int, int]:
        now = self.db.clock()
        return await self.db.write(lambda conn: spaces.adopt(conn, originals, now=now))

    async def put_rows(self, table: CopiedTable, rows: Sequence[Sequence[Value]]) -> None:
        await self.db.write(lambda conn: _put_rows(conn, table, rows))
