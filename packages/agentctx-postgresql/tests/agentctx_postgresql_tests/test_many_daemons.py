"""Several daemons on one database do not interfere with each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from agentctx.errors import ConfigInvalid, IdempotencyKeyReused, NotFound, VersionConflict
from agentctx.storage.entries import ExportSelection
from agentctx.storage.records import Draft, Entry, IdempotencyKey, Job, SaveOutcome, Space
from agentctx.storage.spaces import open_spaces
from agentctx.times import Clock, wall_clock
from agentctx_postgresql.driver import Connection, Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql.statements import follow
from agentctx_postgresql.vectors import spaces
from agentctx_testing.drafts import FINGERPRINT, assert_sound, draft, keyless, vector, vectors

LEASE_MS = 60_000
NO_VECTOR = "SELECT count(*) FROM vec_1 v WHERE NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = v.chunk)"
WITHOUT_JOB_OR_VECTOR = """SELECT count(*) FROM chunks c
    WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE chunk = c.id)
    AND NOT EXISTS (SELECT 1 FROM vec_1 WHERE chunk = c.id)"""


class Daemons:
    """Opens engines on one database as named daemons."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self._url = url
        self._stack = stack

    async def open(self, name: str, clock: Clock = wall_clock) -> PostgresqlStorage:
        storage = await PostgresqlStorage.open(Server(url=self._url), daemon=name, clock=clock)
        self._stack.push_async_callback(storage.close)
        return storage


@pytest.fixture
async def daemons(database: str) -> AsyncIterator[Daemons]:
    async with AsyncExitStack() as stack:
        yield Daemons(database, stack)


async def open_space(storage: PostgresqlStorage) -> Space:
    space = await storage.spaces.open(FINGERPRINT)
    return await storage.spaces.prepare(space.id, vector(1))


async def claim(storage: PostgresqlStorage, clock: Clock = wall_clock, limit: int = 50) -> list[Job]:
    return await storage.jobs.claim(limit, now=clock(), lease_until=clock() + LEASE_MS)


async def count(storage: PostgresqlStorage, sql: str) -> int:
    return int(await storage.db.read(lambda conn: conn.fetchval(sql)))


async def test_new_jobs_are_left_to_the_daemon_that_saved_them(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    await open_space(one)
    saved = await one.entries.save(draft(), embed=True)
    assert await claim(two) == []
    due = await two.jobs.next_due(wall_clock())
    assert due is not None
    assert due > wall_clock()
    assert await claim(one) == list(saved.jobs)
    assert await claim(one) == []


async def test_only_its_daemon_releases_a_lease(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    await open_space(one)
    saved = await one.entries.save(draft(), embed=True)
    assert len(await claim(one)) == 1
    await two.jobs.release_leases()
    assert await claim(two) == []
    await one.jobs.release_leases()
    assert await claim(two) == list(saved.jobs)


@pytest.mark.parametrize("hours", [-3, 3])
async def test_a_daemon_with_a_wrong_clock_neither_steals_nor_waits_for_leases(
    daemons: Daemons, hours: int
) -> None:
    def wrong_clock() -> int:
        return wall_clock() + hours * 3_600_000

    right, other = await daemons.open("right"), await daemons.open("wrong", wrong_clock)
    await open_space(right)
    await right.entries.save(draft(), embed=True)
    (job,) = await claim(right)
    assert await claim(other, wrong_clock) == []
    due = await other.jobs.next_due(wrong_clock())
    assert due is not None
    assert 0 < due - wrong_clock() <= LEASE_MS
    await right.jobs.postpone([job], not_before=wall_clock() - 60_000, error="provider down")
    assert [each.id for each in await claim(other, wrong_clock)] == [job.id]


async def test_no_job_is_claimed_twice(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    await open_space(one)
    for number in range(30):
        await one.entries.save(keyless(f"text {number}"), embed=True)
    await one.jobs.release_leases()
    batches = await asyncio.gather(*(claim(each, limit=3) for each in (one, two) * 8))
    ids = [job.id for batch in batches for job in batch]
    assert len(ids) == len(set(ids)) == 30


async def test_only_one_of_two_completions_stores_the_vector(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    await open_space(one)
    saved = await one.entries.save(draft(), embed=True)
    stored = await asyncio.gather(
        *(each.jobs.complete(saved.jobs, vectors(vector(1))) for each in (one, two))
    )
    assert sorted(stored) == [0, 1]
    assert await one.jobs.complete(saved.jobs, vectors(vector(1))) == 0


async def test_a_forget_during_a_completion_leaves_no_vector_behind(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    await open_space(one)
    saved = [await one.entries.save(keyless(f"text {number}"), embed=True) for number in range(60)]

    async def forget(each: SaveOutcome) -> None:
        await two.entries.delete(each.id)

    await asyncio.gather(
        *(one.jobs.complete(each.jobs, vectors(vector(1))) for each in saved), *map(forget, saved)
    )
    assert await count(one, NO_VECTOR) == 0
    assert await count(one, "SELECT count(*) FROM vec_1") == 0
    assert await count(one, "SELECT count(*) FROM jobs") == 0


async def test_saves_while_a_space_opens_get_jobs_in_it(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")

    async def save(number: int) -> None:
        await one.entries.save(keyless(f"text {number}"), embed=True)

    await asyncio.gather(*map(save, range(10)), open_space(two), *map(save, range(10, 30)))
    assert await count(one, "SELECT count(*) FROM chunks") == 30
    assert await count(one, WITHOUT_JOB_OR_VECTOR) == 0


async def test_a_save_that_waits_for_a_space_to_open_gets_a_job_in_it(daemons: Daemons) -> None:
    """Its statement began before the space was committed, and so does not see it."""
    one, other = await daemons.open("one"), await daemons.open("other")
    blocked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    async def save_meanwhile(conn: Connection) -> asyncio.Task[SaveOutcome]:
        await follow(conn, open_spaces([FINGERPRINT], daemon="one", now=1))
        saving = asyncio.create_task(other.entries.save(keyless("text"), embed=True))
        while not await count(one, blocked):  # noqa: ASYNC110 - the server announces no waiting
            await asyncio.sleep(0)
        return saving

    async with asyncio.timeout(60):
        saved = await (await one.db.write(save_meanwhile))
    assert [job.text for job in saved.jobs] == ["text"]


async def test_opening_a_space_does_not_block_saves_while_it_creates_jobs(
    daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    for number in range(5):
        await one.entries.save(keyless(f"text {number}"), embed=True)
    steps: list[tuple[int, int | None]] = []

    async def saving_before(conn: Connection, **given: int) -> tuple[int, int | None]:
        async with asyncio.timeout(60):
            await two.entries.save(keyless(f"before step {len(steps)}"), embed=True)
        steps.append(await create_missing_jobs(conn, **given))
        return steps[-1]

    create_missing_jobs = spaces.create_missing_jobs
    monkeypatch.setattr(spaces, "JOBS_PER_STEP", 2)
    monkeypatch.setattr(spaces, "create_missing_jobs", saving_before)
    await open_space(one)
    assert len(steps) == 4
    assert await count(one, "SELECT count(*) FROM chunks") == 5 + 4
    assert await count(one, WITHOUT_JOB_OR_VECTOR) == 0


async def test_concurrent_saves_under_one_key_get_consecutive_versions(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")

    def increment(entry: Entry, given: Draft | None) -> Draft:
        return draft(str(int(entry.content) + 1))

    saved = await asyncio.gather(
        *(each.entries.save(draft("1"), embed=False, revision=increment) for each in (one, two) * 20)
    )
    assert sorted(each.version for each in saved) == list(range(1, 41))
    found = await two.entries.find("default", "knowledge", "deploy")
    assert found is not None
    assert found.content == "40"


async def test_a_forget_and_concurrent_revisions_do_not_conflict(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    saved = await one.entries.save(draft("0"), embed=False)

    def increment(entry: Entry, _: Draft | None) -> Draft:
        return draft(str(int(entry.content) + 1))

    outcomes = await asyncio.gather(
        *(each.entries.revise(saved.id, increment, embed=False) for each in (one, two) * 8),
        two.entries.delete(saved.id),
        *(each.entries.revise(saved.id, increment, embed=False) for each in (one, two) * 8),
        return_exceptions=True,
    )
    assert all(isinstance(each, SaveOutcome | int | NotFound) for each in outcomes), outcomes
    assert await one.entries.get(saved.id) is None
    assert await count(one, "SELECT count(*) FROM entries") == 0


async def test_an_idempotency_key_saves_once_across_daemons(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    once = IdempotencyKey(1000, "k", b"digest")
    saved = await asyncio.gather(
        *(each.entries.save(keyless("same"), embed=False, idempotency=once) for each in (one, two) * 8)
    )
    assert len({(each.id, each.version, each.change) for each in saved}) == 1
    assert await count(one, "SELECT count(*) FROM entries") == 1
    with pytest.raises(IdempotencyKeyReused):
        await two.entries.save(keyless("same"), embed=False, idempotency=replace(once, digest=b"else"))


async def test_an_idempotency_key_saves_under_a_key_once_across_daemons(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    await one.entries.save(draft("Before."), embed=False)
    once = IdempotencyKey(1000, "k", b"digest")
    saves = [
        daemon.entries.save(draft(f"Repeated {repetition}."), embed=False, idempotency=once)
        for repetition in range(4)
        for daemon in (one, two)
    ]
    answers = await asyncio.gather(*saves)
    assert {each.version for each in answers} == {2}
    assert len({each.id for each in answers}) == 1


async def test_a_save_under_a_key_and_a_concurrent_forget_leave_one_sound_entry(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    for number in range(20):
        saved = await one.entries.save(draft(f"Text {number}."), embed=True)
        again, forgotten = await asyncio.gather(
            two.entries.save(draft(f"Again {number}."), embed=True),
            one.entries.delete(saved.id),
        )
        live = await one.entries.find("default", "knowledge", "deploy")
        if again.id == saved.id:  # the save was first, so the forget removed both versions
            assert (forgotten, live) == (2, None)
        else:
            assert (forgotten, live and live.id) == (1, again.id)
            await one.entries.delete(again.id)
    await assert_sound(one)


async def test_a_failed_save_frees_its_idempotency_key(daemons: Daemons) -> None:
    one = await daemons.open("one")
    once = IdempotencyKey(1000, "k", b"digest")
    with pytest.raises(VersionConflict):
        await one.entries.save(draft(), embed=False, idempotency=once, if_version=7)
    assert (await one.entries.save(draft(), embed=False, idempotency=once)).version == 1


async def test_an_erasure_reaches_every_daemon(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    announced: asyncio.Queue[str] = asyncio.Queue()

    def listen(ids: Sequence[str]) -> None:
        for each in ids:
            announced.put_nowait(each)

    two.entries.on_erased(listen)
    saved = await one.entries.save(draft(), embed=False)
    await one.entries.delete(saved.id)
    async with asyncio.timeout(60):
        assert await announced.get() == saved.id


async def test_an_erasure_committed_late_reaches_every_daemon(daemons: Daemons) -> None:
    """Its sequence number is lower than one that was seen before."""
    one, two = await daemons.open("one"), await daemons.open("two")
    announced: list[str] = []
    two.entries.on_erased(announced.extend)
    first = await one.entries.save(keyless("first"), embed=False)
    second = await one.entries.save(keyless("second"), embed=False)
    written, may_commit = asyncio.Event(), asyncio.Event()

    async def slow(conn: Connection) -> None:
        await conn.execute("INSERT INTO erasures (entry, at) VALUES ($1, $2)", first.id, wall_clock())
        written.set()
        await may_commit.wait()

    task = asyncio.create_task(one.db.write(slow))
    await written.wait()
    await one.entries.delete(second.id)
    await two.db.erasures.poll(two.db)
    assert second.id in announced
    assert first.id not in announced
    may_commit.set()
    await task
    await two.db.erasures.poll(two.db)
    assert first.id in announced


async def test_an_export_during_slow_saves_misses_nothing(daemons: Daemons) -> None:
    """Rows are committed in another order than written, so a sequence would miss some."""
    one, two = await daemons.open("one"), await daemons.open("two")
    written = asyncio.Event()
    may_commit = asyncio.Event()
    template = await one.entries.save(keyless("template"), embed=False)

    async def slow(conn: Connection) -> None:
        await conn.execute(
            """INSERT INTO entries (id, version, live, namespace, collection, session, agent, content,
                 content_hash, attributes, labels, header, origin, trust, principal, created, updated, size)
               SELECT 'slow', version, live, namespace, collection, session, agent, content,
                 content_hash, attributes, labels, header, origin, trust, principal, created, updated, size
               FROM entries WHERE id = $1""",
            template.id,
        )
        written.set()
        await may_commit.wait()

    task = asyncio.create_task(one.db.write(slow))
    await written.wait()
    for number in range(5):
        await one.entries.save(keyless(f"text {number}"), embed=False)
    page = await two.entries.export_page(ExportSelection(), after=0, limit=2)
    seen = {row.entry.id for row in page.entries}
    may_commit.set()
    await task
    while page.next is not None:
        page = await two.entries.export_page(ExportSelection(), after=page.next, limit=2)
        seen.update(row.entry.id for row in page.entries)
    saved = await count(two, "SELECT count(*) FROM entries")
    # Either the first page had every committed row and was the last, or nothing is missing at the end.
    assert len(seen) == (saved if "slow" in seen else saved - 1)
    later = await two.entries.export_page(ExportSelection(), after=0, limit=100)
    assert "slow" in {row.entry.id for row in later.entries}


async def test_one_daemon_does_not_change_the_model_for_all(daemons: Daemons) -> None:
    one, two = await daemons.open("one"), await daemons.open("two")
    space = await open_space(one)
    with pytest.raises(ConfigInvalid, match="one"):
        await two.spaces.open({**FINGERPRINT, "model": "other"})
    with pytest.raises(ConfigInvalid, match="one"):
        await two.spaces.disable_all()
    assert (await two.spaces.open(FINGERPRINT)).id == space.id
    await one.close()
    assert (await two.spaces.open({**FINGERPRINT, "model": "other"})).id != space.id


async def test_daemons_that_start_together_create_one_schema_and_one_secret(server: object) -> None:
    from agentctx_postgresql_tests.server import RunningServer

    assert isinstance(server, RunningServer)
    server.sql("CREATE DATABASE at_once")
    server.sql("CREATE EXTENSION vector", "at_once")
    async with AsyncExitStack() as stack:
        daemons = Daemons(server.url("at_once"), stack)
        opened = await asyncio.gather(*(daemons.open(f"daemon {number}") for number in range(4)))
        assert len(set(await asyncio.gather(*(each.secret() for each in opened)))) == 1
    server.sql("DROP DATABASE at_once")


async def test_missing_jobs_are_created_once_by_two_daemons(daemons: Daemons) -> None:
    first, second = await daemons.open("a"), await daemons.open("b")
    for storage in (first, second):
        await open_space(storage)
    for number in range(40):
        await first.entries.save(keyless(f"number {number}"), embed=False)
    created = await asyncio.gather(*(each.upkeep.create_missing_jobs() for each in (first, second) * 4))
    assert sum(created) == await count(first, "SELECT count(*) FROM jobs") == 40
