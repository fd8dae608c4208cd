"""Copies a memory from one engine to another and verifies the copy. Independent of the engines.

Rows are compared before and after writing, and equal ones are skipped: an interrupted copy resumes where it
stopped, and repeating a complete one writes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from agentctx.errors import Conflict
from agentctx.storage.audit import Event
from agentctx.storage.base import Storage
from agentctx.storage.copying import (
    RECEIPTS,
    TABLES,
    CopiedChunk,
    CopiedTable,
    CopiedVersion,
    CopyPage,
    CopyStorage,
    Value,
)

PAGE_VERSIONS: Final = 200
PAGE_ROWS: Final = 2_000
MAX_LISTED: Final = 20
"""Maximum number of differences listed; all are counted."""
MIGRATE: Final = "migrate"
"""Kind of the event in the target's audit trail."""


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
class CopyVerdict:
    """The number of differences between source and target, and the first of them."""

    tally: CopyTally = field(default_factory=CopyTally)
    differences: int = 0
    listed: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        self.differences += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(what)


async def tally(source: Storage) -> CopyTally:
    """Return what would be copied."""
    counted = CopyTally()
    async for page in _pages(source.copying):
        counted.add(page)
    async for rows in _rows(source.copying, _RECEIPTS):
        counted.receipts += len(rows)
    return counted


async def copy_memory(source: Storage, target: Storage, *, principal: int) -> int:
    """Copy what the target lacks; return the number of versions written.

    The target's audit trail records the copy. The source is only read.

    Raises:
        Conflict: a daemon has one of them open, or the target has entries that the source lacks.
        StorageFull, StorageFailed: the copy stopped; repeat the call to resume it.
    """
    for storage in (source, target):
        await storage.copying.require_alone()
    await _require_part_of(source.copying, target.copying)
    spaces = await target.copying.put_spaces(await source.spaces.all())
    for table in TABLES:
        async for rows in _rows(source.copying, table):
            await target.copying.put_rows(table, rows)
    written = 0
    async for page in _pages(source.copying):
        missing = await _missing(page, target.copying, spaces)
        if missing:
            await target.copying.put(missing)
        written += len(missing)
    if written:
        detail = {"versions": written, "from": (await source.stats()).engine}
        await target.audit.add([Event(kind=MIGRATE, principal=principal, detail=detail)])
    return written


async def verify_copy(source: Storage, target: Storage) -> CopyVerdict:
    """Compare every row of the source with the target's."""
    verdict = CopyVerdict()
    spaces = await _spaces(source, target)
    async for page in _pages(source.copying):
        verdict.tally.add(page)
        found = await target.copying.find([each.key for each in page.versions])
        for each in page.versions:
            for what in differences(translated(each, spaces), found.get(each.key)):
                verdict.note(f"entry {each.key.entry}, version {each.key.version}: {what}")
    for table in TABLES:
        await _verify_table(source.copying, target.copying, table, verdict)
    return verdict


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
    """Describe the fault in the vector of a chunk; None if it is equal or pending."""
    if space in wanted.vectors and space in found.vectors:
        same = rounded(wanted.vectors[space]) == rounded(found.vectors[space])
        return None if same else "its vector differs"
    return None if space in found.vectors or space in found.jobs else "it has neither vector nor job"


def rounded(vector: bytes) -> bytes:
    """Round a float32 vector to half precision, as PostgreSQL stores it."""
    return np.frombuffer(vector, dtype="<f4").astype("<f2").tobytes()


async def _missing(page: CopyPage, target: CopyStorage, spaces: Mapping[int, int]) -> list[CopiedVersion]:
    """Return the versions of a page that are missing, or different and not newer, in the target."""
    found = await target.find([each.key for each in page.versions])
    missing = []
    for each in page.versions:
        wanted, present = translated(each, spaces), found.get(each.key)
        is_newer = present is not None and present.updated > each.updated
        if not is_newer and any(differences(wanted, present)):
            missing.append(wanted)
    return missing


async def _require_part_of(source: CopyStorage, target: CopyStorage) -> None:
    """Raise Conflict unless the source has every version of the target."""
    async for page in _pages(target):
        keys = [each.key for each in page.versions]
        others = {*page.damaged, *(key.entry for key in set(keys).difference(await source.find(keys)))}
        if others:
            raise Conflict(
                f"The target has entries that the source does not have, such as {min(others)}.",
                hint="Copy into an empty database.",
            )


async def _spaces(source: Storage, target: Storage) -> dict[int, int]:
    """Map the ids of the source's spaces to those of the target's."""
    there = {
        (str(sorted(each.fingerprint.items())), each.generation): each.id
        for each in await target.spaces.all()
    }
    named = {
        each.id: (str(sorted(each.fingerprint.items())), each.generation)
        for each in await source.spaces.all()
    }
    return {space: there[name] for space, name in named.items() if name in there}


async def _verify_table(
    source: CopyStorage, target: CopyStorage, table: CopiedTable, verdict: CopyVerdict
) -> None:
    """Compare both tables in key order."""
    others = (row async for page in _rows(target, table) for row in page)
    async for rows in _rows(source, table):
        for row in rows:
            if table.name == RECEIPTS:
                verdict.tally.receipts += 1
            if await anext(others, None) != row:
                verdict.note(f"table {table.name}: a row is missing or differs")
                return
    if await anext(others, None) is not None:
        verdict.note(f"table {table.name}: the target has rows that the source does not have")


async def _pages(storage: CopyStorage) -> AsyncIterator[CopyPage]:
    after: int | None = 0
    while after is not None:
        page = await storage.page(after, PAGE_VERSIONS)
        yield page
        after = page.next


async def _rows(storage: CopyStorage, table: CopiedTable) -> AsyncIterator[list[tuple[Value, ...]]]:
    after: tuple[Value, ...] | None = None
    while rows := await storage.rows(table, after, PAGE_ROWS):
        yield rows
        after = rows[-1][: table.keys]


_RECEIPTS: Final = next(table for table in TABLES if table.name == RECEIPTS)
