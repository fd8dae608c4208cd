"""The statements of `CopyStorage` on PostgreSQL: as many round trips for many versions as for few."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from agentctx.storage.chunk_texts import content_hash
from agentctx.storage.copy_storage import (
    FindDaemon,
    ReadVectors,
    ReadVersions,
    StoredVersion,
    WriteRows,
    WriteVectors,
    WriteVersions,
    rows_of,
)
from agentctx.storage.copying import DRAFT_COLUMNS, CopiedVersion, VersionKey
from agentctx.storage.saving import InsertVersion
from agentctx.storage.versions import SaveCommand, Times
from agentctx_postgresql import locks, pgvector, presence, sql
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks, new_versions
from agentctx_postgresql.entries.new_versions import NewVersion

_COLUMNS: Final = ", ".join((*DRAFT_COLUMNS, "content", "content_hash", "attributes", "created", "updated"))
_VERSIONS: Final = f"""SELECT seq, id, version, live, {_COLUMNS} FROM entries
    WHERE seq = ANY ($1::bigint[]) ORDER BY seq"""  # noqa: S608 - constants
_VECTORS: Final = """SELECT chunk, embedding FROM vec_{space:d}
    WHERE chunk = ANY ($1::bigint[])"""
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
_ADD_VECTORS: Final = """INSERT INTO vec_{space:d} (chunk, namespace, embedding)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::halfvec[])"""
_SERIAL: Final = """SELECT setval(pg_get_serial_sequence('revocations', 'id'), max(id)) FROM revocations
    HAVING max(id) IS NOT NULL"""


async def _read_versions(conn: Connection, wanted: ReadVersions) -> list[StoredVersion]:
    return [
        StoredVersion(
            row["seq"],
            row["id"],
            row["content"],
            row if content_hash(row["content"]) == row["content_hash"] else None,
        )
        for row in await conn.fetch(_VERSIONS, wanted.seqs)
    ]


async def _read_vectors(conn: Connection, wanted: ReadVectors) -> Mapping[int, Mapping[int, bytes]]:
    vectors: dict[int, dict[int, bytes]] = defaultdict(dict)
    for space in await chunks.prepared(conn):
        for chunk, vector in await conn.fetch(_VECTORS.format(space=space), wanted.chunks):
            vectors[chunk][space] = vector.tobytes()
    return vectors


async def _write_versions(conn: Connection, wanted: WriteVersions) -> Mapping[VersionKey, int]:
    await locks.lock_spaces_shared(conn)
    replaced = await sql.follow(conn, rows_of([each.key for each in wanted.versions]))
    await _make_room(conn, wanted.versions, replaced.values())
    new = await asyncio.to_thread(_built, wanted.versions, replaced, wanted.now)
    await new_versions.insert_copies(conn, new)
    seqs = await sql.follow(
        conn, rows_of([VersionKey(each.insert.entry_id, each.insert.version) for each in new])
    )
    for each in wanted.versions:
        if (seq := replaced.get(each.key)) is not None:
            await _replace(conn, seq, seqs.pop(_temporary(each.key)), live=each.live)
            seqs[each.key] = seq
    return seqs


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
    command = SaveCommand(now=now)
    return [
        NewVersion(
            InsertVersion(
                command, each.draft, key.entry, Times(each.created, each.updated, now), key.version
            ),
            chunks.build(key.entry, each.draft, now=now, reservation=None),
            live=each.live,
        )
        for each in versions
        for key in (_temporary(each.key) if each.key in replaced else each.key,)
    ]


def _temporary(key: VersionKey) -> VersionKey:
    return key._replace(version=key.version + _TEMPORARY)


async def _replace(conn: Connection, seq: int, by: int, *, live: bool) -> None:
    """Give a row the content and the chunks of another, which is removed."""
    for statement in _REPLACE:
        await conn.execute(statement, seq, by)
    await _remove_rows(conn, [by])
    await conn.execute("UPDATE entries SET live = $2 WHERE seq = $1", seq, live)


async def _remove_rows(conn: Connection, seqs: Sequence[int]) -> None:
    for seq in seqs:
        await chunks.remove(conn, seq)
        await conn.execute("DELETE FROM entries WHERE seq = $1", seq)


async def _write_vectors(conn: Connection, wanted: WriteVectors) -> None:
    vectors: dict[int, list[tuple[int, str, bytes]]] = defaultdict(list)
    for space, chunk, version, vector in wanted.vectors:
        half = pgvector.encode_halfvec(np.frombuffer(vector, dtype="<f4"))
        vectors[space].append((chunk, version.draft.namespace, half))
    for space, rows in vectors.items():
        await conn.execute(_ADD_VECTORS.format(space=space), *_columns(rows))


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def _write_rows(conn: Connection, wanted: WriteRows) -> None:
    table = wanted.table
    placeholders = ", ".join(f"${number}" for number in range(1, len(table.columns) + 1))
    head = f"INSERT INTO {table.name} ({', '.join(table.columns)}) OVERRIDING SYSTEM VALUE"
    insert = f"{head} VALUES ({placeholders}) {table.on_conflict}"
    flags = [table.columns.index(name) for name in table.flags]
    values = [
        [bool(value) if number in flags else value for number, value in enumerate(row)] for row in wanted.rows
    ]
    await conn.executemany(insert, values)
    if table.name == "revocations":
        await conn.execute(_SERIAL)


COPY_STATEMENTS: Final[sql.Functions] = {
    FindDaemon: lambda conn, _: presence.other_daemon(conn, ""),
    ReadVersions: _read_versions,
    ReadVectors: _read_vectors,
    WriteVersions: _write_versions,
    WriteVectors: _write_vectors,
    WriteRows: _write_rows,
}
