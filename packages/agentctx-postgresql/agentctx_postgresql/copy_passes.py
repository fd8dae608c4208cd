"""Copies a memory from one engine to another in passes, also while daemons use it, on any engine.

A pass compares every version of the source with the target, writes the ones that differ, reads them again,
and removes what only the target has. Equal rows are skipped, so a pass that was interrupted can be repeated.
The last pass, during which the source does not change, also copies the other tables, and compares everything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from agentctx.errors import Conflict
from agentctx.storage.audit import Event
from agentctx.storage.base import Storage
from agentctx.storage.copy_storage import CopySource, CopyStorage, complete_mark
from agentctx.storage.copying import (
    RECEIPTS,
    TABLES,
    VERSIONS,
    CopiedChunk,
    CopiedTable,
    CopiedVersion,
    CopyMark,
    CopyPage,
    VersionKey,
)

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]

PAGE_VERSIONS: Final = 200
PAGE_ROWS: Final = 2_000
MAX_LISTED: Final = 20
"""Maximum number of differences listed; all are counted."""
FEW: Final = 200
"""A pass that changed no more versions is not worth repeating while the source changes."""
MIGRATE: Final = "migrate"
"""Kind of the event in the target's audit trail."""
_RECEIPTS: Final = next(table for table in TABLES if table.name == RECEIPTS)


@dataclass(slots=True)
class CopyTally:
    """The counts of a memory's content. `entries` counts live versions, `pending` all jobs, even buried."""

    entries: int = 0
    versions: int = 0
    vectors: int = 0
    pending: int = 0
    receipts: int = 0
    damaged: list[str] = field(default_factory=list)
    """Ids of damaged entries, which are not copied."""

    def add(self, page: CopyPage) -> None:
        chunks = [chunk for each in page.versions for chunk in each.chunks]
        self.entries += sum(each.live for each in page.versions)
        self.versions += len(page.versions)
        self.vectors += sum(len(chunk.vectors) for chunk in chunks)
        self.pending += sum(len(chunk.jobs) for chunk in chunks)
        self.damaged += page.damaged


@dataclass(slots=True)
class CopyPass:
    """What a pass counted in the source, changed in the target, and found different afterwards."""

    tally: CopyTally = field(default_factory=CopyTally)
    changed: int = 0
    """Versions written to the target, or removed from it."""
    differences: int = 0
    listed: list[str] = field(default_factory=list)
    """The first differences."""

    def add(self, what: str) -> None:
        self.differences += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(what)


async def tally(source: CopySource) -> CopyTally:
    """Return what would be copied."""
    counted = CopyTally()
    async for page in _pages(source):
        counted.add(page)
    counted.receipts = await _count_receipts(source)
    return counted


async def begin_copy(source: CopySource, target: CopyStorage) -> None:
    """Mark the target as an incomplete copy of the source, so that no daemon uses it.

    Raises:
        ConfigInvalid: the source is an incomplete copy.
        Conflict: a daemon uses the target, or it has entries that were not copied from this source.
    """
    await complete_mark(source)
    await _require_unused(target)
    identity = await source.identity()
    found = await target.mark()
    if found is not None and found.source != identity:
        raise Conflict("The target is a copy of another memory.", hint="Copy into an empty database.")
    if found is None and (others := await target.rows(VERSIONS, None, 1)):
        raise Conflict(
            f"The target has entries of its own, such as {others[0][0]!s}.",
            hint="Copy into an empty database.",
        )
    await target.set_mark(CopyMark(identity, is_complete=False))
    try:
        await _require_unused(target)  # a daemon that started meanwhile may have seen no mark
    except Conflict:  # it may have removed the mark of a complete copy, and uses it now
        await target.set_mark(None if found is None or found.is_complete else found)
        raise


async def copy_pass(source: CopySource, target: CopyStorage, *, is_last: bool) -> CopyPass:
    """Make the target equal to the source, and compare them; the other tables only in the last pass.

    Raises:
        StorageFull, StorageFailed: the pass stopped; repeat it to resume.
    """
    done = CopyPass()
    spaces = await target.put_spaces(await source.spaces())
    done.changed = await _remove_extra_versions(source, target)
    extra = {table: await _put_table(source, target, table) for table in TABLES} if is_last else {}
    async for page in _pages(source):
        await _copy_page(page, target, spaces, done)
    for table in reversed(extra):
        for keys in _batches(extra[table], PAGE_ROWS):
            await target.remove_rows(table, keys)
    for table in extra:
        await _compare_table(source, target, table, done)
    done.tally.receipts = await _count_receipts(source)
    return done


async def finish_copy(target: Storage, done: CopyPass, *, origin: str, principal: int) -> None:
    """Mark the target as complete, and record the copy in its audit trail."""
    mark = await target.copying.mark()
    if mark is not None:
        await target.copying.set_mark(mark._replace(is_complete=True))
    detail = {"versions": done.tally.versions, "from": origin}
    await target.audit.add([Event(kind=MIGRATE, principal=principal, detail=detail)])


def has_converged(previous: int | None, changed: int) -> bool:
    """Return whether another pass would change about as much as the last one, because the source changes."""
    return changed <= FEW or (previous is not None and changed > previous / 2)


def translated(version: CopiedVersion, spaces: Mapping[int, int]) -> CopiedVersion:
    """Map the space ids to the target's; vectors and jobs of spaces that it lacks are dropped."""
    return replace(
        version,
        chunks=tuple(
            chunk._replace(
                vectors={spaces[space]: each for space, each in chunk.vectors.items() if space in spaces},
                jobs={spaces[space]: each for space, each in chunk.jobs.items() if space in spaces},
            )
            for chunk in version.chunks
        ),
    )


def differences(wanted: CopiedVersion, found: CopiedVersion | None) -> Iterator[str]:
    """Describe what is missing or different in the target's version, without quoting any text."""
    if found is None:
        yield "missing or damaged"
        return
    if replace(wanted, chunks=()) != replace(found, chunks=()):
        yield "its text or attributes differ"
    if [chunk[:5] for chunk in wanted.chunks] != [chunk[:5] for chunk in found.chunks]:
        yield "its chunks differ"
        return
    for number, (chunk, copied) in enumerate(zip(wanted.chunks, found.chunks, strict=True)):
        for space in chunk.vectors.keys() | chunk.jobs.keys():
            if fault := _vector_fault(chunk, copied, space):
                yield f"chunk {number}: {fault}"


def _vector_fault(wanted: CopiedChunk, found: CopiedChunk, space: int) -> str | None:
    """Describe how the vector of a chunk, or else its job, differs."""
    if (vector := wanted.vectors.get(space)) is None:
        return None if found.jobs.get(space) == wanted.jobs[space] else "its job is missing or differs"
    if (copied := found.vectors.get(space)) is None:
        return "its vector is missing"
    return None if rounded(vector) == rounded(copied) else "its vector differs"


def rounded(vector: bytes) -> bytes:
    """Round a float32 vector to half precision, as PostgreSQL stores it."""
    return np.frombuffer(vector, dtype="<f4").astype("<f2").tobytes()


async def _require_unused(target: CopyStorage) -> None:
    if daemon := await target.present_daemon():
        raise Conflict(
            f"The daemon {daemon} has the target open.",
            hint="Stop every daemon of the target; if one was killed, wait a minute.",
        )


async def _remove_extra_versions(source: CopySource, target: CopyStorage) -> int:
    extra = [
        VersionKey(*other)
        async for mine, other in _paired(_rows(source, VERSIONS), _rows(target, VERSIONS), VERSIONS.keys)
        if mine is None
    ]
    for keys in _batches(extra, PAGE_VERSIONS):
        await target.remove(keys)
    return len(extra)


async def _copy_page(page: CopyPage, target: CopyStorage, spaces: Mapping[int, int], done: CopyPass) -> None:
    """Write the versions of a page that differ in the target, then compare all of them."""
    done.tally.add(page)
    wanted = [translated(each, spaces) for each in page.versions]
    keys = [each.key for each in wanted]
    found = await target.find(keys)
    differing = [each for each in wanted if any(differences(each, found.get(each.key)))]
    if not differing:
        return
    await target.put(differing)
    done.changed += len(differing)
    found = await target.find(keys)
    for each in wanted:
        for what in differences(each, found.get(each.key)):
            done.add(f"entry {each.key.entry}, version {each.key.version}: {what}")


async def _put_table(source: CopySource, target: CopyStorage, table: CopiedTable) -> list[Row]:
    """Write the rows that differ in the target; return the keys that only the target has."""
    differing: list[Row] = []
    extra: list[Row] = []
    async for mine, other in _paired(_rows(source, table), _rows(target, table), table.keys):
        if mine is None:
            extra.append(other[: table.keys])
        elif mine != other:
            differing.append(mine)
        if len(differing) == PAGE_ROWS:
            await target.put_rows(table, differing)
            differing = []
    await target.put_rows(table, differing)
    return extra


async def _compare_table(source: CopySource, target: CopyStorage, table: CopiedTable, done: CopyPass) -> None:
    async for mine, other in _paired(_rows(source, table), _rows(target, table), table.keys):
        if mine is None:
            done.add(f"table {table.name}: the target has a row that the source does not have")
        elif mine != other:
            done.add(f"table {table.name}: a row is missing or differs")


async def _paired(
    ours: AsyncIterator[Row], theirs: AsyncIterator[Row], keys: int
) -> AsyncIterator[tuple[Any, Any]]:
    """Pair the rows of two tables in key order; None stands for a missing row."""
    mine, other = await anext(ours, None), await anext(theirs, None)
    while mine is not None or other is not None:
        is_mine = other is None or (mine is not None and mine[:keys] <= other[:keys])
        is_other = mine is None or (other is not None and other[:keys] <= mine[:keys])
        yield (mine if is_mine else None), (other if is_other else None)
        mine = await anext(ours, None) if is_mine else mine
        other = await anext(theirs, None) if is_other else other


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


async def _count_receipts(source: CopySource) -> int:
    return sum([1 async for _ in _rows(source, _RECEIPTS)])


async def _pages(source: CopySource) -> AsyncIterator[CopyPage]:
    after: int | None = 0
    while after is not None:
        page = await source.page(after, PAGE_VERSIONS)
        yield page
        after = page.next


async def _rows(source: CopySource, table: CopiedTable) -> AsyncIterator[Row]:
    after: Row | None = None
    while rows := await source.rows(table, after, PAGE_ROWS):
        for row in rows:
            yield row
        after = rows[-1][: table.keys]
