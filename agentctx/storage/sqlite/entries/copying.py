"""`CopyStorage` on the SQLite file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from agentctx.errors import StorageCorrupt
from agentctx.storage.copying import (
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
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.readers import Readers
from agentctx.storage.records import Space
from agentctx.storage.sqlite import checksums, installation
from agentctx.storage.sqlite.connections import CHECK_TIMEOUT_S, SqliteConnections
from agentctx.storage.sqlite.entries import chunks, saving
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.versions import Times, WriteOptions

T = TypeVar("T")

_SELECT: Final = f"SELECT seq, content, checksum, {', '.join(checksums.HEAD)} FROM entries"  # noqa: S608 - constants
_CHUNKS: Final = """SELECT entry, id, cue, start_at, end_at, hash, chunking FROM chunks
    WHERE entry IN (SELECT value FROM json_each(?)) ORDER BY entry, ordinal"""
_JOBS: Final = """SELECT chunk, space, state, attempts, not_before, last_error, created FROM jobs
    WHERE chunk IN (SELECT value FROM json_each(?))"""
_SEQ: Final = "SELECT seq FROM entries WHERE id = ? AND version = ?"
_RIVALS: Final = """SELECT seq FROM entries WHERE live = 1 AND id = ?
    UNION SELECT seq FROM entries WHERE live = 1 AND namespace = ? AND collection = ? AND key = ?"""
"""Live versions that the schema does not allow beside another live one."""
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
        found.append(version_of(head, row[1], tuple(cut[row[0]])))
    return tuple(found), tuple(damaged)


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
    for seq, chunk, *piece in rows:
        found[seq].append(CopiedChunk._make((*piece, vectors[chunk], jobs[chunk])))
    return found


def _put(conn: Connection, versions: Sequence[CopiedVersion], *, now: int) -> None:
    enabled = spaces.enabled_ids(conn)
    conn.execute("PRAGMA defer_foreign_keys = 1")  # a row's number changes before its chunks'
    for each in versions:
        _put_chunks(conn, _put_version(conn, each, now=now), each, enabled, now=now)


def _put_version(conn: Connection, version: CopiedVersion, *, now: int) -> int:
    """Write a version, in the place of the one with its key, and return its row."""
    replaced = conn.execute(_SEQ, version.key).fetchall()
    _remove(conn, replaced)
    draft = version.draft
    rivals = conn.execute(
        _RIVALS, (version.key.entry, draft.namespace, draft.collection, draft.key)
    ).fetchall()
    if version.live:
        _remove(conn, rivals)
    else:
        _set_live(conn, rivals, live=False)
    times = Times(version.created, version.updated, now)
    saving.insert_version(conn, draft, version.key.entry, WriteOptions(now), version.key.version, times=times)
    row = conn.execute(_SEQ, version.key).fetchone()
    if not version.live:
        _set_live(conn, [row], live=False)
        checksums.seal(conn, row[0])
        _set_live(conn, rivals, live=True)
    for former in replaced:
        conn.execute("UPDATE entries SET seq = ? WHERE seq = ?", (*former, *row))
        conn.execute("UPDATE chunks SET entry = ? WHERE entry = ?", (*former, *row))
        row = former
    return int(row[0])


def _set_live(conn: Connection, rows: Sequence[tuple[int]], *, live: bool) -> None:
    conn.executemany(f"UPDATE entries SET live = {live:d} WHERE seq = ?", rows)  # noqa: S608 - 0 or 1


def _remove(conn: Connection, rows: Sequence[tuple[int]]) -> None:
    for (seq,) in rows:
        chunks.remove(conn, seq)
        conn.execute("DELETE FROM entries WHERE seq = ?", (seq,))


def _set_mark(conn: Connection, mark: CopyMark | None) -> None:
    if mark is None:
        conn.execute("DELETE FROM installation WHERE name = ?", (MARK,))
    else:
        installation.remember(conn, MARK, mark.encoded())


def _put_chunks(
    conn: Connection, seq: int, version: CopiedVersion, enabled: Sequence[int], *, now: int
) -> None:
    """Store the vectors and jobs of the chunks that were just written."""
    made = conn.execute(
        "SELECT id, cue, start_at, end_at, hash FROM chunks WHERE entry = ? ORDER BY ordinal", (seq,)
    ).fetchall()
    scope = version.draft.namespace, version.draft.collection, version.draft.session
    originals = {each[:4]: each for each in version.chunks}
    for chunk, *piece, digest in made:
        copied = originals.get((*piece, digest), NOTHING_COPIED)
        for space, vector in copied.vectors.items():
            SpaceIndex(space).insert(conn, [(chunk, *scope, vector)])
        for space, job in jobs_of(copied, enabled, now).items():
            conn.execute(_ADD_JOB, (chunk, space, digest, *job))


class _CopyReads:
    """The parts of `CopySource` and `CopyStorage` that read."""

    async def _read(self, fn: Callable[[Connection], T]) -> T:
        raise NotImplementedError

    async def present_daemon(self) -> str | None:
        return None

    async def identity(self) -> bytes:
        return identity_of(await self._read(lambda conn: installation.find(conn, installation.SECRET)))

    async def mark(self) -> CopyMark | None:
        found = await self._read(lambda conn: installation.find(conn, MARK))
        return None if found is None else CopyMark.decode(found)

    async def spaces(self) -> Sequence[Space]:
        return await self._read(spaces.all_spaces)

    async def page(self, after: int, limit: int) -> CopyPage:
        return await self._read(lambda conn: _page(conn, after, limit))

    async def find(self, keys: Sequence[VersionKey]) -> Mapping[VersionKey, CopiedVersion]:
        return await self._read(lambda conn: _find(conn, keys))

    async def rows(
        self, table: CopiedTable, after: Sequence[Value] | None, limit: int
    ) -> list[tuple[Value, ...]]:
        return await self._read(lambda conn: _rows(conn, table, after, limit))


class SqliteFileSource(_CopyReads):
    """`CopySource` on a file that a daemon may have open.

    The file is open only during each read: a connection that stayed open would keep the daemon from
    overwriting forgotten text.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def _read(self, fn: Callable[[Connection], T]) -> T:
        readers = await Readers.open(self._path, 1)
        try:
            return await readers.run(fn, timeout_s=CHECK_TIMEOUT_S)
        finally:
            await readers.close()


class SqliteCopying(_CopyReads):
    """`CopyStorage` on the SQLite file."""

    def __init__(self, connections: SqliteConnections) -> None:
        self.db = connections

    async def _read(self, fn: Callable[[Connection], T]) -> T:
        return await self.db.readers.run(fn, timeout_s=CHECK_TIMEOUT_S)

    async def set_mark(self, mark: CopyMark | None) -> None:
        await self.db.writer.run(lambda conn: _set_mark(conn, mark))

    async def put(self, versions: Sequence[CopiedVersion]) -> None:
        now = self.db.clock()
        await self.db.writer.run(lambda conn: _put(conn, versions, now=now))

    async def remove(self, keys: Sequence[VersionKey]) -> None:
        def remove(conn: Connection) -> None:
            for key in keys:
                _remove(conn, conn.execute(_SEQ, key).fetchall())

        await self.db.remove(remove)

    async def put_spaces(self, originals: Sequence[Space]) -> Mapping[int, int]:
        now = self.db.clock()
        return await self.db.writer.run(lambda conn: spaces.adopt(conn, originals, now=now))

    async def put_rows(self, table: CopiedTable, rows: Sequence[Sequence[Value]]) -> None:
        values = ", ".join("?" * len(table.columns))
        sql = f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({values}) {table.on_conflict}"  # noqa: S608 - constants
        await self._write_many(sql, rows)

    async def remove_rows(self, table: CopiedTable, keys: Sequence[Sequence[Value]]) -> None:
        values = ", ".join("?" * table.keys)
        await self._write_many(f"DELETE FROM {table.name} WHERE ({', '.join(table.key)}) = ({values})", keys)  # noqa: S608 - constants

    async def _write_many(self, sql: str, rows: Sequence[Sequence[Value]]) -> None:
        def write(conn: Connection) -> None:
            conn.executemany(sql, rows)

        await self.db.writer.run(write)
