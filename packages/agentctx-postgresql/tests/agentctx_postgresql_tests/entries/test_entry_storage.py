"""Concurrent saves share a transaction, and a failing one does not affect the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from agentctx.errors import StorageFailed
from agentctx.storage.records import Change, IdempotencyKey, SaveOutcome
from agentctx.storage.saving import InsertVersion
from agentctx.storage.versions import SaveCommand, Times
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql.entries import entry_storage
from agentctx_postgresql.entries.entry_storage import MIN_SHARE, SaveGroups, group_size
from agentctx_testing.drafts import FINGERPRINT, keyless, vector

WAIT_S = 60


def creation(text: str) -> InsertVersion:
    return InsertVersion(SaveCommand(now=1), keyless(text), text, Times(1, 1, 1))


class Commits:
    """Stands in for the server: each group waits until it may be committed."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.begun: asyncio.Queue[list[str]] = asyncio.Queue()
        self.may_commit = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, group: Sequence[InsertVersion]) -> list[SaveOutcome | None]:
        texts = [each.draft.content for each in group]
        self.groups.append(texts)
        self.begun.put_nowait(texts)
        await self.may_commit.wait()
        if self.error is not None:
            raise self.error
        return [SaveOutcome(id=text, version=1, change=Change.CREATED) for text in texts]


async def start_saves(groups: SaveGroups, count: int) -> list[asyncio.Task[SaveOutcome | None]]:
    """Start `count` saves and let each run until it waits."""
    tasks = [asyncio.create_task(groups.save(creation(str(number)))) for number in range(count)]
    await asyncio.sleep(0)  # each runs up to where it waits
    return tasks


async def test_saves_that_arrive_during_two_commits_share_the_next_one() -> None:
    commits = Commits()
    groups = SaveGroups(commits)
    first = await start_saves(groups, 1)
    async with asyncio.timeout(WAIT_S):
        assert await commits.begun.get() == ["0"]
        others = await start_saves(groups, 10)
        assert await commits.begun.get() == [*map(str, range(MIN_SHARE))]
        assert commits.begun.empty(), "the rest waits"
        commits.may_commit.set()
        saved = await asyncio.gather(*first, *others)
    assert [each.id for each in saved if each] == ["0", *map(str, range(10))]
    assert commits.groups[2:] == [["8", "9"]]


@pytest.mark.parametrize(("in_progress", "size"), [(1, MIN_SHARE), (16, 8), (17, 9), (100, 50), (1_000, 64)])
def test_a_group_takes_half_of_the_saves_in_progress(in_progress: int, size: int) -> None:
    assert group_size(in_progress) == size


async def test_each_save_of_a_refused_group_is_retried_alone() -> None:
    commits = Commits()
    commits.error = UnicodeError("of one of the texts")
    commits.may_commit.set()
    groups = SaveGroups(commits)
    assert await asyncio.gather(*(groups.save(creation(text)) for text in "abc")) == [None] * 3


async def test_a_save_that_may_have_been_committed_is_not_repeated() -> None:
    commits = Commits()
    commits.error = StorageFailed("It may have been saved or not.")
    commits.may_commit.set()
    groups = SaveGroups(commits)
    answers = await asyncio.gather(*(groups.save(creation(text)) for text in "abc"), return_exceptions=True)
    assert answers == [commits.error] * 3


async def test_a_cancelled_caller_stops_no_save_and_close_waits_for_it() -> None:
    commits = Commits()
    groups = SaveGroups(commits)
    tasks = await start_saves(groups, 6)
    tasks[0].cancel()
    tasks[5].cancel()
    commits.may_commit.set()
    async with asyncio.timeout(WAIT_S):
        await groups.close()
    assert sorted(text for group in commits.groups for text in group) == [*"012345"]
    assert [each.id for each in await asyncio.gather(*tasks[1:5]) if each] == [*"1234"]


async def test_a_bad_save_does_not_fail_others(storage: PostgresqlStorage) -> None:
    """PostgreSQL refuses text with a NUL."""
    space = await storage.spaces.open(FINGERPRINT)
    await storage.spaces.prepare(space.id, vector(1))
    texts = ["a", "b\0", *"cdefgh"]
    answers = await asyncio.gather(
        *(storage.entries.save(keyless(text), embed=True) for text in texts), return_exceptions=True
    )
    assert isinstance(answers[1], StorageFailed)
    saved = [each for each in answers if isinstance(each, SaveOutcome)]
    found = [await storage.entries.get(each.id) for each in saved]
    assert [each.content for each in found if each] == [*"acdefgh"]
    assert [job.text for each in saved for job in each.jobs] == [*"acdefgh"]
    verdict = await storage.audit.verify()
    assert (verdict.faults, verdict.rows) == (0, 7)


async def test_reused_idempotency_keys_return_the_first_result_within_a_group(
    storage: PostgresqlStorage,
) -> None:
    keys = [IdempotencyKey(1000, key, b"digest") for key in "abcabc"]
    saved = await asyncio.gather(
        *(storage.entries.save(keyless("text"), embed=False, idempotency=key) for key in keys)
    )
    assert len({each.id for each in saved}) == 3
    assert [each.id for each in saved[:3]] == [each.id for each in saved[3:]]
    assert await storage.db.read(lambda conn: conn.fetchval("SELECT count(*) FROM entries")) == 3


@pytest.mark.parametrize("was_committed", [True, False])
async def test_a_group_whose_reply_is_lost_is_saved_once(
    storage: PostgresqlStorage, monkeypatch: pytest.MonkeyPatch, was_committed: bool
) -> None:
    await storage.spaces.open(FINGERPRINT)
    write = entry_storage.write_group
    written: list[Sequence[SaveOutcome | None]] = []

    async def lose_the_first_reply(conn: Connection, **kwargs: Any) -> Sequence[SaveOutcome | None]:
        if was_committed or written:
            written.append(await write(conn, **kwargs))
        if len(written) < 2:
            written.append([])
            raise asyncpg.ConnectionDoesNotExistError
        return written[-1]

    monkeypatch.setattr(entry_storage, "write_group", lose_the_first_reply)
    keys = [IdempotencyKey(1000, key, b"digest") for key in "ab"]
    saved = await asyncio.gather(
        *(storage.entries.save(keyless("text"), embed=True, idempotency=key) for key in keys),
        storage.entries.save(keyless("text"), embed=True),
    )
    assert [len(each.jobs) for each in saved] == [1, 1, 1]
    stored = await storage.db.read(lambda conn: conn.fetch("SELECT id FROM entries ORDER BY id"))
    assert [row[0] for row in stored] == sorted(each.id for each in saved)
    verdict = await storage.audit.verify()
    assert (verdict.faults, verdict.rows) == (0, 3)


async def test_a_save_issued_right_after_a_reply_is_not_left_waiting() -> None:
    commits = Commits()
    commits.may_commit.set()
    groups = SaveGroups(commits)

    async def client(name: str) -> None:
        for number in range(20):
            await groups.save(creation(f"{name}{number}"))

    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*map(client, "abc"))
    assert sum(map(len, commits.groups)) == 60
