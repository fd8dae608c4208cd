from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentctx.embedding_queue.maintenance import GATHERED_S, PROMISED_S, keep_tidy, maintain, resume_rebuild
from agentctx.errors import DeadlineExceeded, StorageFailed


class Expiring:
    """What each call of `sweep` does or raises."""

    def __init__(self, *plan: int | Exception) -> None:
        self.plan = list(plan)
        self.sweeps = 0

    async def sweep(self, *, limit: int = 1_000) -> int:
        self.sweeps += 1
        step = self.plan.pop(0) if self.plan else 0
        if isinstance(step, Exception):
            raise step
        return step


class Naps:
    """A sleep that returns at once and ends the test at the last nap."""

    def __init__(self, storage: Expiring, count: int) -> None:
        self.storage = storage
        self.count = count
        self.seen: list[tuple[float, int]] = []

    async def sleep(self, seconds: float) -> None:
        self.seen.append((seconds, self.storage.sweeps))
        if len(self.seen) == self.count:
            raise asyncio.CancelledError


async def swept(storage: Expiring, naps: int) -> list[tuple[float, int]]:
    rest = Naps(storage, naps)
    with pytest.raises(asyncio.CancelledError):
        await maintain(storage, interval_s=60, sleep=rest.sleep)
    return rest.seen


async def test_sweeps_at_once_and_until_nothing_is_left() -> None:
    assert await swept(Expiring(1_000, 1_000, 20, 0), naps=1) == [(60, 4)]


async def test_sweeps_again_after_every_interval() -> None:
    assert await swept(Expiring(), naps=3) == [(60, 1), (60, 2), (60, 3)]


async def test_the_queue_looks_after_every_interval_for_jobs_of_daemons_that_have_died() -> None:
    storage = Expiring()
    rest, looks = Naps(storage, 3), []
    with pytest.raises(asyncio.CancelledError):
        await maintain(
            storage, interval_s=60, recheck_table=lambda: looks.append(len(rest.seen)), sleep=rest.sleep
        )
    assert looks == [1, 2]


async def test_of_daemons_that_share_a_database_the_leader_sweeps() -> None:
    storage = Expiring()
    rest, answers = Naps(storage, 4), iter((False, True, StorageFailed("away"), True))
    asked: list[str] = []

    async def leads(task: str) -> bool:
        asked.append(task)
        answer = next(answers)
        if isinstance(answer, StorageFailed):
            raise answer
        return answer

    with pytest.raises(asyncio.CancelledError):
        await maintain(storage, interval_s=60, leads=leads, sleep=rest.sleep)
    assert [sweeps for _, sweeps in rest.seen] == [0, 1, 1, 2]
    assert set(asked) == {"sweep"}


@pytest.mark.parametrize("error", [StorageFailed("locked"), DeadlineExceeded("slow")])
async def test_a_failed_sweep_is_logged_and_made_up_for_by_the_next(
    logs: list[MutableMapping[str, Any]], error: Exception
) -> None:
    storage = Expiring(5, error, 7, 0)
    assert await swept(storage, naps=2) == [(60, 2), (60, 4)]
    assert [(entry["event"], entry.get("entries")) for entry in logs] == [
        ("sweep_failed", None),
        ("swept", 5),
        ("swept", 7),
    ]


async def test_a_bug_ends_it() -> None:
    with pytest.raises(ZeroDivisionError):
        await maintain(Expiring(ZeroDivisionError()), interval_s=60)


class Untidy:
    """A storage with deleted text in its files; `plan` is what each `tidy` does or raises."""

    def __init__(self, *plan: bool | Exception) -> None:
        self.plan = list(plan)
        self.pauses: list[float] = []
        self.asked = 0

    async def wait_until_untidy(self) -> None:
        self.asked += 1
        if not self.plan:
            raise asyncio.CancelledError

    async def tidy(self) -> bool:
        step = self.plan.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


async def tidied(storage: Untidy) -> Untidy:
    with pytest.raises(asyncio.CancelledError):
        await keep_tidy(storage, sleep=storage.sleep)
    return storage


async def test_deleted_text_leaves_the_files_soon_and_only_when_there_is_some() -> None:
    storage = await tidied(Untidy(True, True))
    assert storage.pauses == [GATHERED_S, GATHERED_S]
    assert storage.asked == 3


async def test_readers_in_the_way_are_waited_for_and_reported_when_it_takes_longer_than_promised(
    logs: list[MutableMapping[str, Any]],
) -> None:
    tries = round(PROMISED_S / GATHERED_S)
    storage = await tidied(Untidy(*[False] * (tries + 2), True))
    assert storage.pauses == [GATHERED_S] * tries + [PROMISED_S] * 3
    assert [entry["event"] for entry in logs if entry["log_level"] != "debug"] == [
        "deleted_text_remains",
        "deleted_text_is_gone",
    ]


async def test_tidying_that_fails_is_tried_again(logs: list[MutableMapping[str, Any]]) -> None:
    storage = await tidied(Untidy(StorageFailed("locked"), StorageFailed("locked"), True))
    assert storage.asked == 2
    assert [entry.get("reason") for entry in logs] == ["locked"]


async def test_a_bug_in_tidying_ends_it() -> None:
    with pytest.raises(ZeroDivisionError):
        await keep_tidy(Untidy(ZeroDivisionError()), sleep=Untidy().sleep)


class Interrupted:
    """A storage with a rebuild that an earlier run has left."""

    def __init__(self, outcome: int | StorageFailed | None) -> None:
        self._outcome = outcome

    async def resume_words(self) -> int | None:
        if isinstance(self._outcome, StorageFailed):
            raise self._outcome
        return self._outcome


@pytest.mark.parametrize(
    ("outcome", "logged"),
    [(None, []), (7, ["words_rebuilt"]), (StorageFailed("The disk has failed."), ["words_not_rebuilt"])],
)
async def test_a_rebuild_of_words_is_resumed_and_its_outcome_logged(
    outcome: int | StorageFailed | None, logged: list[str]
) -> None:
    with capture_logs() as lines:
        await resume_rebuild(Interrupted(outcome))
    assert [line["event"] for line in lines] == logged
