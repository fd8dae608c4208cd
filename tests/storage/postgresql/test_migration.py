"""A memory from SQLite to PostgreSQL and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentctx.errors import Conflict
from agentctx.storage import migration
from agentctx.storage.audit import AuditQuery
from agentctx.storage.base import Storage
from agentctx.storage.copying import TABLES, CopiedVersion
from agentctx.storage.injections import Receipt
from agentctx.storage.migration import MIGRATE, copy_memory, differences, tally, verify_copy
from agentctx.storage.records import IdempotencyKey
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.trust import Source
from tests.storage.conformance import assert_sound, embed, found_by_words, save, serving_space
from tests.storage.drafts import ALL, START_MS, HandClock, draft, keyless, vector

ME = 1000
NUMBERS = 12


@pytest.fixture
async def file(tmp_path: Path, clock: HandClock) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    yield opened
    await opened.close()


async def fill(storage: Storage, clock: HandClock) -> None:
    """Versions, cues, vectors, a job, a buried job, provenance, quarantine, what was forgotten, a receipt."""
    await serving_space(storage)
    for number in range(NUMBERS):
        text = f"Number {number} of the deploy notes."
        attributes = {"category": "fact", "cues": [f"who asked for {number}"], "weight": 0.1 * number}
        saved = await save(storage, keyless(text, attributes=attributes, session=f"s{number % 2}"))
        await embed(storage, saved, *(vector(1, 0.1 * number + turn) for turn in range(len(saved.jobs))))
    clock.now += 1_000
    await embed(storage, await save(storage, draft("The window is on Monday.")), vector(0, 1))
    key = IdempotencyKey(ME, "once", b"d" * 32)
    clock.now += 1_000
    second = await storage.entries.save(
        draft("The window is on Tuesday.", flags=("imperative",)), embed=True, idempotency=key
    )
    await embed(storage, second, vector(0, 0, 1))
    await save(storage, keyless("Still to be embedded.", expires=START_MS + 10**9))
    buried = await save(storage, keyless("Cannot be embedded."))
    await storage.jobs.bury(buried.jobs[0], "too long")
    await embed(storage, await save(storage, keyless("From a bad tool.", agent="bad")), vector(0, 0, 0, 1))
    await save(storage, keyless("Made of the window.", derived_from=(second.id,)))
    await storage.trust.revoke(Source(namespace="default", agent="bad"), principal=ME, dry_run=False)
    gone = await save(storage, keyless("Nobody may know."))
    await storage.entries.delete(gone.id, principal=ME)
    await storage.injections.add([receipt(second.id)])


def receipt(entry: str) -> Receipt:
    return Receipt(
        id="0123456789ab",
        created=START_MS,
        namespaces=("default",),
        session="s1",
        agent="a",
        principal=ME,
        restarted=True,
        position="tail",
        question_hash="h",
        question=f"What about {entry}?",
        gate=0.5,
        degraded=None,
        rerank=None,
        candidates=(),
        fates={},
        budget_tokens=100,
        tokens=0,
        milliseconds=1.5,
        block_hash=None,
    )


async def listed(storage: Storage) -> list[object]:
    return [replace(entry) for entry in (await storage.entries.list_entries(ALL, limit=100))[0]]


async def nearest(storage: Storage) -> list[str]:
    space = next(space for space in await storage.spaces.all() if space.state == "active")
    hits = await storage.search.by_vector(space.id, vector(1, 0.2), ALL, 50)
    return [hit.entry for hit in hits]


async def assert_same(source: Storage, target: Storage) -> None:
    verdict = await verify_copy(source, target)
    assert (verdict.differences, verdict.listed) == (0, [])
    assert await tally(target) == verdict.tally == await tally(source)
    await assert_sound(target)
    assert await listed(target) == await listed(source)
    assert await nearest(target) == await nearest(source)
    for question in ("window", "deploy notes", "who asked"):
        assert sorted(await found_by_words(target, question)) == sorted(
            await found_by_words(source, question)
        )
    assert await target.jobs.depth() == await source.jobs.depth()
    assert await target.injections.last(10) == await source.injections.last(10)
    for table in TABLES:
        assert await target.copying.rows(table, None, 100) == await source.copying.rows(table, None, 100)


@pytest.fixture(params=["to PostgreSQL", "to SQLite"])
async def pair(
    request: pytest.FixtureRequest, file: SqliteStorage, storage: Storage, clock: HandClock
) -> tuple[Storage, Storage]:
    """A source with something of everything, and an empty target."""
    source, target = (file, storage) if request.param == "to PostgreSQL" else (storage, file)
    await fill(source, clock)
    return source, target


async def test_everything_is_the_same_there_and_nothing_is_written_twice(
    pair: tuple[Storage, Storage],
) -> None:
    source, target = pair
    before = await tally(source)

    assert await copy_memory(source, target, principal=ME) == before.versions
    await assert_same(source, target)
    assert await tally(source) == before
    (record,) = await target.audit.page(AuditQuery(limit=10, kind=MIGRATE))
    assert record.principal == ME
    assert await copy_memory(source, target, principal=ME) == 0


async def test_a_copy_that_was_stopped_continues_where_it_was(
    pair: tuple[Storage, Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    monkeypatch.setattr(migration, "PAGE_VERSIONS", 3)
    monkeypatch.setattr(migration, "PAGE_ROWS", 1)
    versions = (await tally(source)).versions
    written: list[int] = []
    for stop_at in (1, 2, 1):
        await stopped(source, target, stop_at, written)
    rest = await copy_memory(source, target, principal=ME)

    assert len(written) == 4
    assert sum(written) + rest == versions
    await assert_same(source, target)


async def stopped(source: Storage, target: Storage, stop_at: int, written: list[int]) -> None:
    """Run a copy that is cancelled once it has written a number of pages."""
    copying = target.copying
    put = copying.put
    task = asyncio.current_task()
    pages = 0

    async def put_and_stop(versions: Sequence[CopiedVersion]) -> None:
        nonlocal pages
        await put(versions)
        pages += 1
        written.append(len(versions))
        if pages == stop_at:
            raise asyncio.CancelledError

    assert task is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "put", put_and_stop)
        with pytest.raises(asyncio.CancelledError):
            await copy_memory(source, target, principal=ME)


async def test_what_the_source_changed_since_the_copy_was_stopped_is_copied(
    file: SqliteStorage, storage: Storage, clock: HandClock
) -> None:
    await fill(file, clock)
    await copy_memory(file, storage, principal=ME)
    clock.now += 1_000
    saved = await save(file, draft("The window is on Wednesday."))
    await embed(file, saved, vector(0.5, 0.5))
    clock.now += 1_000
    await save(file, draft("The window is on Wednesday.", attributes={"category": "fact", "tags": ["new"]}))

    assert await copy_memory(file, storage, principal=ME) == 2
    assert (await verify_copy(file, storage)).listed == []
    await assert_sound(storage)


async def test_a_target_with_other_entries_is_refused(
    file: SqliteStorage, storage: Storage, clock: HandClock
) -> None:
    await fill(file, clock)
    other = await save(storage, keyless("It was here before."))
    with pytest.raises(Conflict, match=other.id):
        await copy_memory(file, storage, principal=ME)
    assert (await tally(storage)).versions == 1


async def test_the_proof_names_what_is_missing_or_another(
    file: SqliteStorage, storage: Storage, clock: HandClock
) -> None:
    await fill(file, clock)
    await copy_memory(file, storage, principal=ME)
    entries = (await file.entries.list_entries(ALL, limit=100))[0]
    await storage.entries.delete(entries[-1].id, principal=ME)
    verdict = await verify_copy(file, storage)
    assert f"entry {entries[-1].id}, version 1: missing or damaged" in verdict.listed


async def test_a_vector_that_is_gone_or_another_is_a_difference(
    file: SqliteStorage, clock: HandClock
) -> None:
    await fill(file, clock)
    version = (await file.copying.page(0, 1)).versions[0]
    chunk = version.chunks[0]
    (space,) = chunk.vectors
    off = np.array([9, 9, 9, 9], dtype="<f4").tobytes()

    def found(vectors: dict[int, bytes]) -> list[str]:
        changed = replace(version, chunks=(chunk._replace(vectors=vectors), *version.chunks[1:]))
        return list(differences(version, changed))

    assert found(dict(chunk.vectors)) == []
    assert found({space: off}) == ["chunk 0: its vector differs"]
    assert found({}) == ["chunk 0: it has neither vector nor job"]
