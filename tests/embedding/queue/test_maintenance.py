from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentctx.embedding.queue.maintenance import (
    CHORE_EVERY_S,
    CHORE_PAUSE_S,
    GATHERED_S,
    PROMISED_S,
    keep_doing,
    keep_tidy,
    maintain,
    resume_rebuild,
)
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.base import Chore


class ScriptedSweeps:
    """`plan` is what each `sweep` returns or raises."""

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
    """A sleep that returns immediately and cancels the task at the last nap."""

    def __init__(self, storage: ScriptedSweeps, count: int) -> None:
        self.storage = storage
        self.count = count
        self.seen: list[tuple[float, int]] = []

    async def sleep(self, seconds: float) -> None:
        self.seen.append((seconds, self.storage.sweeps))
        if len(self.seen) == self.count:
            raise asyncio.CancelledError


async def run_sweeps(storage: ScriptedSweeps, naps: int) -> list[tuple[float, int]]:
    rest = Naps(storage, naps)
    with pytest.raises(asyncio.CancelledError):
        await maintain(storage, interval_s=60, sleep=rest.sleep)
    return rest.seen


async def test_sweeps_immediately_and_until_nothing_is_left() -> None:
    assert await run_sweeps(ScriptedSweeps(1_000, 1_000, 20, 0), naps=1) == [(60, 4)]


async def test_sweeps_again_after_every_interval() -> None:
    assert await run_sweeps(ScriptedSweeps(), naps=3) == [(60, 1), (60, 2), (60, 3)]


async def test_the_queue_rechecks_the_table_after_every_interval() -> None:
    storage = ScriptedSweeps()
    rest, looks = Naps(storage, 3), []
    with pytest.raises(asyncio.CancelledError):
        await maintain(
            storage, interval_s=60, recheck_table=lambda: looks.append(len(rest.seen)), sleep=rest.sleep
        )
    assert looks == [1, 2]


@pytest.mark.parametrize("error", [StorageFailed("locked"), DeadlineExceeded("slow")])
async def test_a_failed_sweep_is_logged_and_repeated(
    logs: list[MutableMapping[str, Any]], error: Exception
) -> None:
    storage = ScriptedSweeps(5, error, 7, 0)
    assert await run_sweeps(storage, naps=2) == [(60, 2), (60, 4)]
    assert [(entry["event"], entry.get("entries")) for entry in logs] == [
        ("sweep_failed", None),
        ("swept", 5),
        ("swept", 7),
    ]


async def test_the_log_says_which_backups_hold_what_expired(logs: list[MutableMapping[str, Any]]) -> None:
    async def held() -> dict[str, int]:
        return {"backups": 2}

    receipts, storage = ScriptedSweeps(3, 0), ScriptedSweeps(5, 0)
    with pytest.raises(asyncio.CancelledError):
        await maintain(storage, receipts=receipts, interval_s=60, held=held, sleep=Naps(storage, 1).sleep)
    assert [(entry.get("entries"), entry.get("backups")) for entry in logs] == [(5, 2), (None, None)]


async def test_a_bug_ends_sweeping() -> None:
    with pytest.raises(ZeroDivisionError):
        await maintain(ScriptedSweeps(ZeroDivisionError()), interval_s=60)


async def test_a_chore_is_done_in_steps_with_pauses_and_a_failure_ends_a_round(
    logs: list[MutableMapping[str, Any]],
) -> None:
    plan: list[bool | Exception] = [True, True, False, True, StorageFailed("away"), False]
    pauses: list[float] = []

    async def step() -> bool:
        result = plan.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if not plan:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await keep_doing(Chore("packing", step), sleep=sleep)
    pause, rest = CHORE_PAUSE_S, CHORE_EVERY_S
    assert pauses == [pause, pause, rest, pause, rest, rest]
    assert [(entry["event"], entry["chore"]) for entry in logs] == [("chore_failed", "packing")]


class ScriptedTidying:
    """A storage with deleted text in its files; `plan` is what each `tidy` returns or raises."""

    def __init__(self, *plan: bool | Exception) -> None:
        self.plan = list(plan)
        self.pauses: list[float] = []
        self.asked = 0

    async def wait_for_work(self) -> None:
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


async def run_tidying(storage: ScriptedTidying) -> ScriptedTidying:
    with pytest.raises(asyncio.CancelledError):
        await keep_tidy(storage, sleep=storage.sleep)
    return storage


async def test_deleted_text_is_removed_soon_and_only_when_there_is_some() -> None:
    storage = await run_tidying(ScriptedTidying(True, True))
    assert storage.pauses == [GATHERED_S, GATHERED_S]
    assert storage.asked == 3


async def test_tidying_waits_for_readers_and_reports_a_delay(
    logs: list[MutableMapping[str, Any]],
) -> None:
    tries = round(PROMISED_S / GATHERED_S)
    storage = await run_tidying(ScriptedTidying(*[False] * (tries + 2), True))
    assert storage.pauses == [GATHERED_S] * tries + [PROMISED_S] * 3
    assert [entry["event"] for entry in logs if entry["log_level"] != "debug"] == [
        "deleted_text_remains",
        "deleted_text_is_gone",
    ]


async def test_failed_tidying_is_retried(logs: list[MutableMapping[str, Any]]) -> None:
    storage = await run_tidying(ScriptedTidying(StorageFailed("locked"), StorageFailed("locked"), True))
    assert storage.asked == 2
    assert [entry.get("reason") for entry in logs] == ["locked"]


async def test_a_bug_ends_tidying() -> None:
    with pytest.raises(ZeroDivisionError):
        await keep_tidy(ScriptedTidying(ZeroDivisionError()), sleep=ScriptedTidying().sleep)


class InterruptedRebuild:
    """A storage with an unfinished rebuild of an earlier run."""

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
async def test_a_word_rebuild_is_resumed_and_its_outcome_logged(
    outcome: int | StorageFailed | None, logged: list[str]
) -> None:
    with capture_logs() as lines:
        await resume_rebuild(InterruptedRebuild(outcome))
    assert [line["event"] for line in lines] == logged
