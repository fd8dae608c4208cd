"""`CopyStorage` on the SQLite file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentctx.errors import StorageCorrupt
from agentctx.sqlite.driver import Connection
from agentctx.storage.copying import (
    NOTHING_COPIED,
    PAGE_CHARS,
    CopiedChunk,
    CopiedJob,
    CopiedTable,
    CopiedVersion,
    CopyPage,
    Value,
    VersionKey,
    spans_of,
)
from agentctx.storage.records import Draft, Space
from agentctx.storage.sqlite import checksums
from agentctx.storage.sqlite.connections import CHECK_TIMEOUT_S, SqlitePart, reads
from agentctx.storage.sqlite.entries import chunks, saving
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.versions import Times

_SELECT: Final = f"SELECT seq, content, checksum, {', '.join(checksums.HEAD)} FROM entries"  # noqa: S608 - constants
_CHUNKS: Final = """SELECT entry, id, cue, start_at, end_at, hash, chunking FROM chunks
    WHERE entry IN (SELECT value FROM json_each(?)) ORDER BY entry, ordinal"""
_JOBS: Final = """SELECT chunk, space, state, attempts, not_before, last_error, created FROM jobs
    WHERE chunk IN (SELECT value FROM json_each(?))"""
_SAME: Final = (
    "namespace",
    "collection",
    "key",
    "session",
    "agent",
    "labels",
    "header",
    "origin",
    "trust",
    "principal",
    "expires",
)
_ADD_JOB: Final = """INSERT INTO jobs
      (chunk, space, hash, state, attempts, not_before, last_error, created, leased_until)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)"""


def _page(conn: Connection, after: int, limit: int) -> CopyPage:
    cursor = conn.execute(f"{_SELECT} WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit + 1))
    rows: list[Any] = []
    chars = 0
    for row in cursor:
        if len(rows) == limit or chars > PAGE_CHARS:
            return CopyPage(*_versions(conn, rows), rows[-1][0])
        rows.append(row)
        chars += len(row[1])
    return CopyPage(*_versions(conn, rows), None)


def _find(conn: Connection, keys: Sequence[VersionKey]) -> Mapping[VersionKey, CopiedVersion]:
    rows = [conn.execute(f"{_SELECT} WHERE id = ? AND version = ?", key).fetchone() for key in keys]
    return {each.key: each for each in _versions(conn, [row for row in rows if row])[0]}


def _rows(
    conn: Connection, table: CopiedTable, after: Sequence[Value] | None, limit: int
) -> list[tuple[Value, ...]]:
    key = ", ".join(table.key)
    condition = f"WHERE ({key}) > ({', '.join('?' * table.keys)})" if after else ""
    sql = f"SELECT {', '.join(table.columns)} FROM {table.source} {condition} ORDER BY {key} LIMIT ?"  # noqa: S608 - constants
    return [tuple(row) for row in conn.execute(sql, (*(after or ()), limit))]


def _versions(conn: Connection, rows: Sequence[Any]) -> tuple[tuple[CopiedVersion, ...], tuple[str, ...]]:
    found, damaged = [], []
    cut = _chunks(conn, [row[0] for row in rows])
    for row in rows:
        head = dict(zip(checksums.HEAD, row[3:], strict=True))
        try:
            checksums.check_head(row[3:], row[2])
            checksums.check_content(head["id"], row[1], head["content_hash"])
        except StorageCorrupt:
            damaged.append(str(head["id"]))
            continue
        found.append(_version(head, row[1], tuple(cut[row[0]])))
    return tuple(found), tuple(damaged)


def _version(head: Mapping[str, Any], content: str, pieces: tuple[CopiedChunk, ...]) -> CopiedVersion:
    draft = Draft(
        content=content,
        attributes=json.loads(head["attributes"]),
        spans=spans_of(pieces),
        chunking=pieces[0].chunking if pieces else 0,
        **{name: head[name] for name in _SAME},
    )
    return CopiedVersion(
        key=VersionKey(head["id"], head["version"]),
        live=bool(head["live"]),
        draft=draft,
        created=head["created"],
        updated=head["updated"],
        chunks=pieces,
    )


def _chunks(conn: Connection, seqs: Sequence[int]) -> Mapping[int, list[CopiedChunk]]:
    rows = conn.execute(_CHUNKS, (json.dumps(list(seqs)),)).fetchall()
    ids = [row[1] for row in rows]
    vectors: dict[int, dict[int, bytes]] = defaultdict(dict)
    for index in spaces.prepared(conn):
        for stored in index.sound(conn, ids):
            vectors[stored[0]][index.space] = bytes(stored[4])
    jobs: dict[int, dict[int, CopiedJob]] = defaultdict(dict)
    for chunk, space, *job in conn.execute(_JOBS, (json.dumps(ids),)):
        jobs[chunk][space] = CopiedJob(*job)
    found: dict[int, list[CopiedChunk]] = defaultdict(list)
    for seq, chunk, *place in rows:
        found[seq].append(CopiedChunk._make((*place, vectors[chunk], jobs[chunk])))
    return found


def _put(conn: Connection, versions: Sequence[CopiedVersion], *, now: int) -> None:
    enabled = spaces.enabled_ids(conn)
    for each in versions:
        for (seq,) in conn.execute(
            "SELECT seq FROM entries WHERE id = ? AND version = ?", each.key
        ).fetchall():
            chunks.remove(conn, seq)
            conn.execute("DELETE FROM entries WHERE seq = ?", (seq,))
        times = Times(each.created, each.updated, now)
        saving.insert_version(conn, each.draft, each.key.entry, each.key.version, times=times, embed=False)
        seq = conn.execute("SELECT seq FROM entries WHERE id = ? AND version = ?", each.key).fetchone()[0]
        if not each.live:
            conn.execute("UPDATE entries SET live = 0 WHERE seq = ?", (seq,))
            checksums.seal(conn, seq)
        _put_chunks(conn, seq, each, enabled, now=now)


def _put_chunks(
    conn: Connection, seq: int, version: CopiedVersion, enabled: Sequence[int], *, now: int
) -> None:
    """Store the vectors and jobs of the chunks that were just written."""
    made = conn.execute(
        "SELECT id, cue, start_at, end_at, hash FROM chunks WHERE entry = ? ORDER BY ordinal", (seq,)
    ).fetchall()
    place = version.draft.namespace, version.draft.collection, version.draft.session
    originals = {each[:4]: each for each in version.chunks}
    for chunk, *where, digest in made:
        copied = originals.get((*where, digest), NOTHING_COPIED)
        for space, vector in copied.vectors.items():
            SpaceIndex(space).insert(conn, [(chunk, *place, vector)])
        due = dict.fromkeys(enabled, CopiedJob("pending", 0, 0, None, now)) | dict(copied.jobs)
        for space in due.keys() - copied.vectors.keys():
            conn.execute(_ADD_JOB, (chunk, space, digest, *due[space]))


class SqliteCopying(SqlitePart):
    """`CopyStorage` on the SQLite file."""

    page = reads(_page, timeout_s=CHECK_TIMEOUT_S)
    find = reads(_find, timeout_s=CHECK_TIMEOUT_S)
    rows = reads(_rows, timeout_s=CHECK_TIMEOUT_S)

    async def require_alone(self) -> None:
        """Do nothing: the lock of the data folder ensures it."""

    async def put(self, versions: Sequence[CopiedVersion]) -> None:
        now = self.db.clock()
        await self.db.writer.run(lambda conn: _put(conn, versions, now=now))

    async def put_spaces(self, originals: Sequence[Space]) -> Mapping[int, int]:
        now = self.db.clock()
        return await self.db.writer.run(lambda conn: spaces.adopt(conn, originals, now=now))

    async def put_rows(self, table: CopiedTable, rows: Sequence[Sequence[Value]]) -> None:
        places = ", ".join("?" * len(table.columns))
        sql = f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({places}) {table.on_conflict}"  # noqa: S608 - constants

        def put(conn: Connection) -> None:
            conn.executemany(sql, rows)

        await self.db.writer.run(put)
