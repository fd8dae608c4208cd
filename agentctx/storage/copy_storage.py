"""Reads and writes a memory as a whole, in steps for both engines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from agentctx.errors import ConfigInvalid
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
from agentctx.storage.quarantine import RemoveChunks
from agentctx.storage.records import Space
from agentctx.storage.spaces import SelectSpaces, adopt, space_of
from agentctx.storage.steps import Execute, ExecuteMany, Follower, Reader, Rows, Statement, Steps

_SECRET: Final = "secret"  # noqa: S105 - the name of a row
_LENGTHS: Final = "SELECT seq, length(content) FROM entries WHERE seq > ? ORDER BY seq LIMIT ?"
_CHUNKS: Final = """SELECT entry, id, cue, start_at, end_at, hash, chunking FROM chunks
    WHERE entry IN ?numbers ORDER BY entry, ordinal"""
_JOBS: Final = """SELECT chunk, space, state, attempts, not_before, last_error, created FROM jobs
    WHERE chunk IN ?numbers"""
_ADD_JOB: Final = """INSERT INTO jobs
      (chunk, space, hash, state, attempts, not_before, last_error, created, leased_until)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)"""
_REMEMBER: Final = """INSERT INTO installation (name, value) VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value"""


class StoredVersion(NamedTuple):
    """The row of a version; `columns` is None if it is damaged."""

    seq: int
    entry: str
    content: str
    columns: Mapping[str, Any] | None


class CopiedVector(NamedTuple):
    """A vector to be stored for a chunk of a version."""

    space: int
    chunk: int
    version: CopiedVersion
    vector: bytes


@dataclass(frozen=True, slots=True)
class FindDaemon(Statement[str | None]):
    """Asks for the id of a daemon that has the database open; always None for a file, which has a lock."""


@dataclass(frozen=True, slots=True)
class ReadVersions(Statement[Sequence[StoredVersion]]):
    """Asks for the rows, ascending."""

    seqs: Sequence[int]


@dataclass(frozen=True, slots=True)
class ReadVectors(Statement[Mapping[int, Mapping[int, bytes]]]):
    """Asks for the undamaged vectors, by chunk and space."""

    chunks: Sequence[int]


@dataclass(frozen=True, slots=True)
class WriteVersions(Statement[Mapping[VersionKey, int]]):
    """Writes versions in order with their chunks and words, as `put` does; answered with their rows."""

    versions: Sequence[CopiedVersion]
    now: int


@dataclass(frozen=True, slots=True)
class WriteVectors(Statement[None]):
    """Stores vectors of chunks that have none."""

    vectors: Sequence[CopiedVector]


@dataclass(frozen=True, slots=True)
class WriteRows(Statement[None]):
    """Writes rows of a table, each replacing the one with its key."""

    table: CopiedTable
    rows: Sequence[Sequence[Value]]


class CopySource:
    """Reads a memory as a whole, also while daemons use it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def present_daemon(self) -> str | None:
        """Return the id of a daemon that has the database open; always None for a file, which has a lock."""
        return await self._reader.look(lambda: iter(FindDaemon()))

    async def identity(self) -> bytes:
        """Return `identity_of` the installation's secret."""
        return identity_of(await self._reader.look(partial(_installed, _SECRET)))

    async def mark(self) -> CopyMark | None:
        """Return the mark of a copy; None if there is none."""
        found = await self._reader.look(partial(_installed, MARK))
        return None if found is None else CopyMark.decode(found)

    async def spaces(self) -> Sequence[Space]:
        return [space_of(row) for row in await self._reader.look(lambda: iter(SelectSpaces()))]

    async def page(self, after: int, limit: int) -> CopyPage:
        """Return up to `limit` versions; `after` is 0 at first, then the `next` of the previous page."""
        return await self._reader.look(partial(_page, after, limit), is_long=True)

    async def find(self, keys: Sequence[VersionKey]) -> Mapping[VersionKey, CopiedVersion]:
        """Return the versions that exist and are undamaged."""
        return await self._reader.look(partial(_find, keys), is_long=True)

    async def rows(
        self, table: CopiedTable, after: Sequence[Value] | None, limit: int
    ) -> list[tuple[Value, ...]]:
        """Return up to `limit` rows in key order, after the row with the key `after`."""
        return await self._reader.look(partial(_rows, table, after, limit), is_long=True)


class CopyStorage(CopySource):
    """Also writes a memory as a whole, while no daemon uses it."""

    def __init__(self, connections: Follower) -> None:
        super().__init__(connections)
        self._db = connections

    async def set_mark(self, mark: CopyMark | None) -> None:
        if mark is None:
            change = Execute("DELETE FROM installation WHERE name = ?", (MARK,))
        else:
            change = Execute(_REMEMBER, (MARK, mark.encoded()))
        await self._db.change(lambda: iter(change))

    async def put(self, versions: Sequence[CopiedVersion]) -> None:
        """Write versions in order, each replacing the one with its key, in one transaction.

        A live version also replaces the live versions with its entry's id or key. A job is created for each
        chunk with neither vector nor job in an enabled space.
        """
        await self._db.change(partial(_put, versions, now=self._db.clock()))

    async def remove(self, keys: Sequence[VersionKey]) -> None:
        """Remove versions in one transaction."""
        await self._db.change(partial(_remove, keys), lambda _: self._db.notes.note_deletion())

    async def put_spaces(self, spaces: Sequence[Space]) -> Mapping[int, int]:
        """Create the spaces that are not retired, and retire all others; return the new ids by the given ids.

        Raises:
            Conflict: a space of the same model has another dimension.
        """
        return await self._db.change(partial(adopt, spaces, now=self._db.clock()))

    async def put_rows(self, table: CopiedTable, rows: Sequence[Sequence[Value]]) -> None:
        """Write rows, each replacing the one with its key, in one transaction."""
        await self._db.change(lambda: iter(WriteRows(table, rows)))

    async def remove_rows(self, table: CopiedTable, keys: Sequence[Sequence[Value]]) -> None:
        """Remove the rows with these keys in one transaction."""
        values = ", ".join("?" * table.keys)
        sql = f"DELETE FROM {table.name} WHERE ({', '.join(table.key)}) = ({values})"  # noqa: S608 - constants
        await self._db.change(lambda: iter(ExecuteMany(sql, keys)))


async def complete_mark(database: CopySource) -> CopyMark | None:
    """Return the mark of a complete copy, if there is one. Raises `ConfigInvalid` for an incomplete copy."""
    mark = await database.mark()
    if mark is not None and not mark.is_complete:
        raise ConfigInvalid(
            "The database is an incomplete copy of another memory.",
            hint="Run `agentctx migrate --to` again where that memory is, or use another database.",
        )
    return mark


async def require_usable(target: CopyStorage) -> None:
    """Let a daemon use the database unless it is an incomplete copy. Raises `ConfigInvalid`.

    The database then no longer counts as a copy of another memory.
    """
    if await complete_mark(target):
        await target.set_mark(None)


def _installed(name: str) -> Steps[bytes | None]:
    rows = yield from Rows("SELECT value FROM installation WHERE name = ?", (name,))
    return next((value for (value,) in rows if isinstance(value, bytes)), None)


def _page(after: int, limit: int) -> Steps[CopyPage]:
    found = yield from Rows(_LENGTHS, (after, limit + 1))
    seqs: list[int] = []
    chars = 0
    for seq, length in found:
        if len(seqs) == limit or chars > PAGE_CHARS:
            break
        seqs.append(seq)
        chars += length
    versions, damaged = yield from _versions(seqs)
    return CopyPage(versions, damaged, seqs[-1] if len(seqs) < len(found) else None)


def _find(keys: Sequence[VersionKey]) -> Steps[Mapping[VersionKey, CopiedVersion]]:
    seqs = yield from rows_of(keys)
    versions, _ = yield from _versions(sorted(seqs.values()))
    return {each.key: each for each in versions}


def rows_of(keys: Sequence[VersionKey]) -> Steps[dict[VersionKey, int]]:
    """Return the rows of the versions that exist."""
    wanted, ids = set(keys), list({key.entry for key in keys})
    rows = yield from Rows("SELECT id, version, seq FROM entries WHERE id IN ?ids", (ids,))
    found = {VersionKey(entry, version): seq for entry, version, seq in rows}
    return {key: seq for key, seq in found.items() if key in wanted}


def _rows(table: CopiedTable, after: Sequence[Value] | None, limit: int) -> Steps[list[tuple[Value, ...]]]:
    key = ", ".join(table.key)
    condition = f"WHERE ({key}) > ({', '.join('?' * table.keys)})" if after else ""
    sql = f"SELECT {', '.join(table.columns)} FROM {table.source} {condition} ORDER BY {key} LIMIT ?"  # noqa: S608 - constants
    rows = yield from Rows(sql, (*(after or ()), limit))
    return [tuple(int(value) if isinstance(value, bool) else value for value in row) for row in rows]


def _versions(seqs: Sequence[int]) -> Steps[tuple[tuple[CopiedVersion, ...], tuple[str, ...]]]:
    """Return the undamaged versions in the rows, and the entries of the damaged ones."""
    cut = yield from _chunks(seqs)
    stored = yield from ReadVersions(seqs)
    versions = tuple(
        version_of(each.columns, each.content, tuple(cut[each.seq])) for each in stored if each.columns
    )
    return versions, tuple(each.entry for each in stored if each.columns is None)


def _chunks(seqs: Sequence[int]) -> Steps[Mapping[int, list[CopiedChunk]]]:
    rows = yield from Rows(_CHUNKS, (seqs,))
    ids = [row[1] for row in rows]
    vectors = yield from ReadVectors(ids)
    jobs: dict[int, dict[int, CopiedJob]] = defaultdict(dict)
    for chunk, space, *job in (yield from Rows(_JOBS, (ids,))):
        jobs[chunk][space] = CopiedJob(*job)
    found: dict[int, list[CopiedChunk]] = defaultdict(list)
    for seq, chunk, *piece in rows:
        found[seq].append(CopiedChunk._make((*piece, vectors.get(chunk, {}), jobs[chunk])))
    return found


def _put(versions: Sequence[CopiedVersion], *, now: int) -> Steps[None]:
    seqs = yield from WriteVersions(versions, now)
    added = {seqs[each.key]: each for each in versions if each.chunks}
    enabled = [row[0] for row in (yield from Rows("SELECT id FROM spaces WHERE enabled ORDER BY id"))]
    originals = {(seq, *each[:4]): each for seq, version in added.items() for each in version.chunks}
    vectors: list[CopiedVector] = []
    jobs: list[tuple[Any, ...]] = []
    for seq, chunk, *piece, _ in (yield from Rows(_CHUNKS, (list(added),))):
        copied = originals.get((seq, *piece), NOTHING_COPIED)
        vectors += [CopiedVector(space, chunk, added[seq], each) for space, each in copied.vectors.items()]
        jobs += [(chunk, space, piece[-1], *job) for space, job in jobs_of(copied, enabled, now).items()]
    if vectors:
        yield from WriteVectors(vectors)
    if jobs:
        yield from ExecuteMany(_ADD_JOB, jobs)


def _remove(keys: Sequence[VersionKey]) -> Steps[None]:
    yield from remove_rows([*(yield from rows_of(keys)).values()])


def remove_rows(seqs: Sequence[int]) -> Steps[None]:
    """Remove the versions in these rows, with their chunks."""
    for seq in seqs:
        yield from RemoveChunks(seq)
        yield from Execute("DELETE FROM entries WHERE seq = ?", (seq,))
