"""Moving a memory from SQLite to PostgreSQL and back."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentctx.errors import ConfigInvalid, Conflict
from agentctx.storage.audit import AuditQuery
from agentctx.storage.base import Storage
from agentctx.storage.copy_storage import CopySource, require_usable
from agentctx.storage.copying import TABLES, CopiedJob, CopiedVersion
from agentctx.storage.injections import Receipt
from agentctx.storage.records import IdempotencyKey
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.statements import SqliteFileReader
from agentctx.storage.trust import Source
from agentctx_postgresql import copy_passes
from agentctx_postgresql.copy_passes import (
    MIGRATE,
    CopyPass,
    begin_copy,
    copy_pass,
    differences,
    finish_copy,
    has_converged,
    tally,
)
from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_testing.drafts import (
    ALL,
    START_MS,
    ManualClock,
    assert_sound,
    draft,
    embed,
    found_by_words,
    keyless,
    save,
    serving_space,
    vector,
)

ME = 1000
NUMBERS = 12
STATES = ("pending", "buried")


@pytest.fixture
async def file(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
async def storage(database: str, clock: ManualClock) -> AsyncIterator[PostgresqlStorage]:
    """A storage open on a server, though not as one of its daemons."""
    server = Server(url=database)
    opened = await PostgresqlStorage.open(
        server, daemon="migrate", clock=clock, server_clock=clock, migrates=False
    )
    yield opened
    await opened.close()


async def fill(storage: Storage, clock: ManualClock) -> None:
    """Save versions, cues, vectors, jobs, provenance, quarantine, a forgotten entry and a receipt."""
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
        conversation="c1",
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


def source_of(storage: Storage) -> CopySource:
    """Return the source as the command opens it: read-only, while the test has it open like a daemon."""
    return (
        CopySource(SqliteFileReader(storage.db.path))
        if isinstance(storage, SqliteStorage)
        else storage.copying
    )


async def move(source: Storage, target: Storage) -> CopyPass:
    """Copy all of a memory that no daemon uses."""
    copied = source_of(source)
    await begin_copy(copied, target.copying)
    done = await copy_pass(copied, target.copying, is_last=True)
    if not done.differences:
        await finish_copy(target, done, origin="here", principal=ME)
    return done


async def assert_same(source: Storage, target: Storage) -> None:
    again = await copy_pass(source_of(source), target.copying, is_last=True)
    assert (again.changed, again.differences, again.listed) == (0, 0, [])
    assert await tally(target.copying) == again.tally == await tally(source_of(source))
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
async def source_and_target(
    request: pytest.FixtureRequest, file: SqliteStorage, storage: Storage, clock: ManualClock
) -> tuple[Storage, Storage]:
    """A source with some of everything, and an empty target."""
    source, target = (file, storage) if request.param == "to PostgreSQL" else (storage, file)
    await fill(source, clock)
    return source, target


async def test_a_copy_is_complete_and_writes_nothing_twice(
    source_and_target: tuple[Storage, Storage],
) -> None:
    source, target = source_and_target
    before = await tally(source_of(source))

    assert (await move(source, target)).changed == before.versions
    await assert_same(source, target)
    assert await tally(source_of(source)) == before
    (record,) = await target.audit.page(AuditQuery(limit=10, kind=MIGRATE))
    assert record.principal == ME
    assert (await move(source, target)).changed == 0


async def test_an_interrupted_copy_resumes(
    source_and_target: tuple[Storage, Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = source_and_target
    monkeypatch.setattr(copy_passes, "PAGE_VERSIONS", 3)
    monkeypatch.setattr(copy_passes, "PAGE_ROWS", 1)
    versions = (await tally(source_of(source))).versions
    written: list[int] = []
    for stop_at in (1, 2, 1):
        await interrupt_copy(source, target, stop_at, written)
    rest = await move(source, target)

    assert len(written) == 4
    assert sum(written) + rest.changed == versions
    await assert_same(source, target)


async def interrupt_copy(source: Storage, target: Storage, stop_at: int, written: list[int]) -> None:
    """Run a copy and cancel it after it has written `stop_at` pages."""
    copying = target.copying
    put = copying.put
    pages = 0

    async def put_and_stop(versions: Sequence[CopiedVersion]) -> None:
        nonlocal pages
        await put(versions)
        pages += 1
        written.append(len(versions))
        if pages == stop_at:
            raise asyncio.CancelledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "put", put_and_stop)
        with pytest.raises(asyncio.CancelledError):
            await move(source, target)


async def change_memory(storage: Storage, clock: ManualClock) -> str:
    """Save, update, embed, bury and forget, as a daemon does during a copy; return the forgotten text."""
    clock.now += 1_000
    saved = await save(storage, draft("The window is on Wednesday."))
    await embed(storage, saved, vector(0.5, 0.5))
    clock.now += 1_000
    await save(
        storage, draft("The window is on Wednesday.", attributes={"category": "fact", "tags": ["new"]})
    )
    entries = (await storage.entries.list_entries(ALL, limit=100))[0]
    pending = next(entry for entry in entries if entry.content == "Still to be embedded.")
    (again,) = await storage.jobs.claim(1, now=clock.now, lease_until=clock.now + 1)
    await embed(storage, replace(saved, jobs=(again,)), vector(0.1, 0.9))
    assert again.text.endswith(pending.content)
    gone = next(entry for entry in entries if entry.content.startswith("Number 3 "))
    await storage.entries.delete(gone.id, principal=ME)
    await save(storage, keyless("Saved in the meantime."))
    return gone.content


async def test_passes_follow_a_changing_memory(
    source_and_target: tuple[Storage, Storage], clock: ManualClock
) -> None:
    source, target = source_and_target
    copied = source_of(source)
    await begin_copy(copied, target.copying)
    first = await copy_pass(copied, target.copying, is_last=False)
    gone = await change_memory(source, clock)
    second = await copy_pass(copied, target.copying, is_last=False)
    assert first.changed == first.tally.versions
    assert (second.changed, second.differences) == (6, 0), (
        "three versions of the window, and an embedded, a saved and a forgotten entry"
    )
    assert gone not in str(await listed(target))
    assert (await move(source, target)).changed == 0
    await assert_same(source, target)

    window = await source.entries.find("default", "knowledge", "deploy")
    assert window is not None
    await source.entries.delete(window.id, principal=ME)
    assert (await move(source, target)).changed == window.version, "with its flags and idempotency keys"
    await assert_same(source, target)


async def test_a_file_left_by_a_killed_daemon_can_be_read(
    file: SqliteStorage, clock: ManualClock, tmp_path: Path
) -> None:
    await fill(file, clock)
    left = tmp_path / "left"
    files = await asyncio.to_thread(copy_files, file.db.path, left)
    source = CopySource(SqliteFileReader(left / file.db.path.name))
    assert await tally(source) == await tally(file.copying)
    assert await asyncio.to_thread(read_all, left) == files


def copy_files(database: Path, folder: Path) -> dict[str, bytes]:
    """Copy a database and its WAL in another process: closing them here would drop SQLite's locks."""
    folder.mkdir()
    wal = database.with_name(f"{database.name}-wal")
    subprocess.run(["cp", database, wal, folder], check=True)
    files = read_all(folder)
    assert all(files.values())
    return files


def read_all(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


async def test_a_daemon_may_change_the_memory_between_two_pages(
    source_and_target: tuple[Storage, Storage], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = source_and_target
    monkeypatch.setattr(copy_passes, "PAGE_VERSIONS", 1)
    put = target.copying.put
    pages = 0

    async def put_and_change(versions: Sequence[CopiedVersion]) -> None:
        nonlocal pages
        await put(versions)
        pages += 1
        if pages == NUMBERS + 2:  # both versions of the window have been copied
            await change_memory(source, clock)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target.copying, "put", put_and_change)
        await begin_copy(source_of(source), target.copying)
        await copy_pass(source_of(source), target.copying, is_last=False)
    assert pages > NUMBERS + 2
    assert (await move(source, target)).listed == []
    await assert_same(source, target)


class TestTarget:
    """Which databases a memory can be copied to, and when a daemon may use them."""

    async def test_with_other_entries_is_refused(
        self, file: SqliteStorage, storage: Storage, clock: ManualClock
    ) -> None:
        await fill(file, clock)
        other = await save(storage, keyless("It was here before."))
        with pytest.raises(Conflict, match=other.id):
            await move(file, storage)
        assert (await tally(storage.copying)).versions == 1
        await require_usable(storage.copying)

    async def test_with_another_memory_is_refused(
        self, file: SqliteStorage, storage: Storage, clock: ManualClock, tmp_path: Path
    ) -> None:
        await fill(file, clock)
        await begin_copy(source_of(file), storage.copying)
        other = await SqliteStorage.open(tmp_path / "other.db", clock=clock)
        await other.secret()
        with pytest.raises(Conflict, match="copy of another memory"):
            await begin_copy(source_of(other), storage.copying)
        await other.close()

    async def test_is_unusable_until_the_copy_is_complete(
        self, source_and_target: tuple[Storage, Storage]
    ) -> None:
        source, target = source_and_target
        await begin_copy(source_of(source), target.copying)
        await copy_pass(source_of(source), target.copying, is_last=False)
        with pytest.raises(ConfigInvalid, match="incomplete copy"):
            await require_usable(target.copying)
        with pytest.raises(ConfigInvalid, match="incomplete copy"):
            await begin_copy(source_of(target), source.copying)
        await move(source, target)
        await require_usable(target.copying)
        with pytest.raises(Conflict, match="entries of its own"):
            await move(source, target)

    async def test_of_a_running_daemon_is_refused(
        self, file: SqliteStorage, storage: Storage, clock: ManualClock
    ) -> None:
        await fill(file, clock)
        await assert_refused_when_a_daemon_starts(file, storage)
        await require_usable(storage.copying)
        await move(file, storage)
        await assert_refused_when_a_daemon_starts(file, storage)
        with pytest.raises(Conflict, match="entries of its own"):
            await move(file, storage)


async def assert_refused_when_a_daemon_starts(source: Storage, target: Storage) -> None:
    """Begin a copy while a daemon of the target starts."""
    present: list[str | None] = [None, "a daemon"]

    async def present_daemon() -> str | None:
        return present.pop(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target.copying, "present_daemon", present_daemon)
        with pytest.raises(Conflict, match="a daemon has the target open"):
            await begin_copy(source_of(source), target.copying)


async def test_the_proof_names_missing_and_differing_rows(
    source_and_target: tuple[Storage, Storage],
) -> None:
    source, target = source_and_target
    await move(source, target)
    entry = (await listed(source))[-1]
    receipts = next(table for table in TABLES if table.name == "injections")
    (row,) = await target.copying.rows(receipts, None, 10)

    async def discard(*_: object) -> None:
        """Stand in for a target that loses what is written."""

    await target.copying.remove([(key := (await target.copying.page(0, 1)).versions[0].key)])
    await target.copying.remove_rows(receipts, [row[:1]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target.copying, "put", discard)
        patch.setattr(target.copying, "put_rows", discard)
        done = await move(source, target)
    assert entry
    assert done.listed == [
        f"entry {key.entry}, version {key.version}: missing or damaged",
        "table injections: a row is missing or differs",
    ]
    with pytest.raises(ConfigInvalid):
        await require_usable(target.copying)


async def test_a_missing_or_differing_vector_is_a_difference(file: SqliteStorage, clock: ManualClock) -> None:
    await fill(file, clock)
    version = (await file.copying.page(0, 1)).versions[0]
    chunk = version.chunks[0]
    (space,) = chunk.vectors
    job = CopiedJob("pending", 0, 0, None, START_MS)
    off = np.array([9, 9, 9, 9], dtype="<f4").tobytes()

    def with_chunk(**changes: Any) -> CopiedVersion:
        return replace(version, chunks=(chunk._replace(**changes), *version.chunks[1:]))

    def differences_with(**changes: Any) -> list[str]:
        return list(differences(version, with_chunk(**changes)))

    assert differences_with() == []
    assert differences_with(vectors={space: off}) == ["chunk 0: its vector differs"]
    assert differences_with(vectors={}, jobs={space: job}) == ["chunk 0: its vector is missing"], (
        "the target will not embed it again"
    )
    pending, buried = (with_chunk(vectors={}, jobs={space: job._replace(state=state)}) for state in STATES)
    assert list(differences(pending, buried)) == ["chunk 0: its job is missing or differs"]
    assert list(differences(pending, pending)) == []


@pytest.mark.parametrize(
    ("previous", "changed", "expected"),
    [(None, 200, True), (None, 201, False), (1_000, 500, False), (1_000, 501, True)],
)
def test_passes_end_when_they_stop_converging(previous: int | None, changed: int, expected: bool) -> None:
    assert has_converged(previous, changed) is expected
