from __future__ import annotations

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any

import pytest

from agentctx.embedding_queue.maintenance import maintain
from agentctx.errors import StorageFailed


class Expiring:
    """What each call does or raises: `plan` of `sweep`, `tidying` of `tidy`."""

    def __init__(self, *plan: int | Exception, tidying: Sequence[bool | Exception] = ()) -> None:
        self.plan = list(plan)
        self.tidying = list(tidying)
        self.sweeps = 0
        self.tidied_after: list[int] = []

    async def sweep(self, *, limit: int = 1_000) -> int:
        self.sweeps += 1
        step = self.plan.pop(0) if self.plan else 0
        if isinstance(step, Exception):
            raise step
        return step

    async def tidy(self) -> bool:
        self.tidied_after.append(self.sweeps)
        step = self.tidying.pop(0) if self.tidying else True
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


async def test_a_failed_sweep_is_logged_and_made_up_for_by_the_next(
    logs: list[MutableMapping[str, Any]],
) -> None:
    storage = Expiring(5, StorageFailed("locked"), 7, 0)
    assert await swept(storage, naps=2) == [(60, 2), (60, 4)]
    assert [(entry["event"], entry.get("entries")) for entry in logs] == [
        ("sweep_failed", None),
        ("swept", 5),
        ("swept", 7),
    ]


async def test_tidies_up_once_a_round_after_the_sweep() -> None:
    storage = Expiring(3, 0, 5, 0)
    await swept(storage, naps=2)
    assert storage.tidied_after == [2, 4]


async def test_tidying_that_fails_or_is_put_off_is_made_up_for_by_the_next(
    logs: list[MutableMapping[str, Any]],
) -> None:
    storage = Expiring(tidying=[StorageFailed("locked"), False, True])
    await swept(storage, naps=3)
    assert len(storage.tidied_after) == 3
    assert [entry["event"] for entry in logs] == ["tidying_failed", "tidying_put_off"]


@pytest.mark.parametrize("storage", [Expiring(ZeroDivisionError()), Expiring(tidying=[ZeroDivisionError()])])
async def test_a_bug_ends_it(storage: Expiring) -> None:
    with pytest.raises(ZeroDivisionError):
        await maintain(storage, interval_s=60)
