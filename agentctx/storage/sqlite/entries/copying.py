"""The statements of `CopyStorage` on SQLite: rows with their checksums, vectors with theirs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.copy_storage import (
    FindDaemon,
    ReadVectors,
    ReadVersions,
    StoredVersion,
    WriteRows,
    WriteVectors,
    WriteVersions,
)
from agentctx.storage.copying import CopiedVersion, VersionKey
from agentctx.storage.file.driver import Connection
from agentctx.storage.saving import InsertVersion
from agentctx.storage.sqlite import checksums, sql
from agentctx.storage.sqlite.entries import chunks, writes
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.steps import Rows
from agentctx.storage.versions import SaveCommand, Times

_VERSIONS: Final = f"""SELECT seq, content, checksum, {", ".join(checksums.HEAD)} FROM entries
    WHERE seq IN ?numbers ORDER BY seq"""  # noqa: S608 - constants
_SEQ: Final = "SELECT seq FROM entries WHERE id = ? AND version = ?"
_RIVALS: Final = """SELECT seq FROM entries WHERE live = 1 AND id = ?
    UNION SELECT seq FROM entries WHERE live = 1 AND namespace = ? AND collection = ? AND key = ?"""
"""Live versions that the schema does not allow beside another live one."""


def _read_versions(conn: Connection, wanted: ReadVersions) -> Iterator[StoredVersion]:
    for seq, content, checksum, *values in sql.execute(conn, Rows(_VERSIONS, (wanted.seqs,))):
        head = dict(zip(checksums.HEAD, values, strict=True))
        try:
            checksums.check_head(values, checksum)
            checksums.check_content(head["id"], content, head["content_hash"])
        except StorageCorrupt:
            yield StoredVersion(seq, str(head["id"]), content, None)
        else:
            yield StoredVersion(seq, head["id"], content, head)


def _read_vectors(conn: Connection, wanted: ReadVectors) -> Mapping[int, Mapping[int, bytes]]:
    vectors: dict[int, dict[int, bytes]] = defaultdict(dict)
    for index in spaces.prepared(conn):
        for stored in index.sound(conn, wanted.chunks):
            vectors[stored[0]][index.space] = bytes(stored[4])
    return vectors


def _write_versions(conn: Connection, wanted: WriteVersions) -> Mapping[VersionKey, int]:
    conn.execute("PRAGMA defer_foreign_keys = 1")  # a row's number changes before its chunks'
    return {each.key: _put_version(conn, each, now=wanted.now) for each in wanted.versions}


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
    writes.insert_version(
        conn, InsertVersion(SaveCommand(now=now), draft, version.key.entry, times, version.key.version)
    )
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


def _write_vectors(conn: Connection, wanted: WriteVectors) -> None:
    for space, chunk, version, vector in wanted.vectors:
        scope = version.draft.namespace, version.draft.collection, version.draft.session
        SpaceIndex(space).insert(conn, [(chunk, *scope, vector)])


def _write_rows(conn: Connection, wanted: WriteRows) -> None:
    table = wanted.table
    values = ", ".join("?" * len(table.columns))
    insert = f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({values}) {table.on_conflict}"  # noqa: S608 - constants
    conn.executemany(insert, wanted.rows)


COPY_STATEMENTS: Final[sql.Functions] = {
    FindDaemon: lambda _conn, _statement: None,
    ReadVersions: lambda conn, each: list(_read_versions(conn, each)),
    ReadVectors: _read_vectors,
    WriteVersions: _write_versions,
    WriteVectors: _write_vectors,
    WriteRows: _write_rows,
}
