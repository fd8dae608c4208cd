"""What an endpoint can do wrong in ten minutes with seven saves: few requests, and all is embedded later.

The clock is a manual one; the lane, its storage, the calibration and the refusals are real.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import pytest
from structlog.testing import capture_logs

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.base import check_reply
from agentctx.embedding.providers.fake import FakeCall, FakeProvider
from agentctx.embedding.providers.remote.http import refusal
from agentctx.embedding.queue.lane import Lane
from agentctx.embedding.queue.timing import sleep
from agentctx.errors import ProviderFailed
from agentctx.service.rag.calibrator import Calibrator
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.storage.base import Storage
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.records import Space
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.vectors import Vectors
from tests.amount import some
from tests.durability.patient_timer import PatientTimer, WatchedStorage

SAVES, STEPS, STEP_MS = 7, 60, 10_000
POISON = "poison"
NOW_S = 1_750_000_000.0


class Endpoint(FakeProvider):
    """An embedding service with a fault, until it is well."""

    def __init__(self, timer: PatientTimer, fault: Fault | None) -> None:
        super().__init__(model="endpoint")
        self.timer = timer
        self.fault = fault
        self.well = asyncio.Event()
        self.rng = random.Random(1)
        self.accepted: list[int] = []

    async def _answer(self, call: FakeCall) -> Vectors:
        self.calls.append(call)
        reply = np.stack([self._vector(text) for text in call.texts])
        if self.fault is not None:
            reply = await self.fault(self, call, reply)
        return check_reply(reply, count=len(call.texts), dimension=self.dimension)


Fault = Callable[[Endpoint, FakeCall, Vectors], Awaitable[Vectors]]


def refused(status: int, **headers: str) -> ProviderFailed:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return refusal(status, named, b"{}", now=NOW_S, withheld=[])


def answers(error: Callable[[], ProviderFailed], *, only: str = "") -> Fault:
    async def fault(_: Endpoint, call: FakeCall, reply: Vectors) -> Vectors:
        if any(only in text for text in call.texts):
            raise error()
        return reply

    return fault


def spoils(change: Callable[[Vectors], Vectors], *, only: str = "") -> Fault:
    async def fault(_: Endpoint, call: FakeCall, reply: Vectors) -> Vectors:
        return change(reply) if any(only in text for text in call.texts) else reply

    return fault


def limited(per_minute: int, **headers: str) -> Fault:
    async def fault(endpoint: Endpoint, _: FakeCall, reply: Vectors) -> Vectors:
        now = endpoint.timer.now()
        endpoint.accepted = [at for at in endpoint.accepted if now - at < 60_000]
        if len(endpoint.accepted) >= per_minute:
            raise refused(429, **headers)
        endpoint.accepted.append(now)
        return reply

    return fault


def hangs(*, only: str = "") -> Fault:
    """Hold each request until the endpoint is restarted, or for as long as a connection waits."""

    async def fault(endpoint: Endpoint, call: FakeCall, reply: Vectors) -> Vectors:
        if not any(only in text for text in call.texts):
            return reply
        await sleep(endpoint.timer, 60_000, until=endpoint.well)
        raise ProviderFailed("the connection to the provider was lost")

    return fault


async def slow(endpoint: Endpoint, _: FakeCall, reply: Vectors) -> Vectors:
    await sleep(endpoint.timer, 25_000)
    return reply


async def flaky(endpoint: Endpoint, _: FakeCall, reply: Vectors) -> Vectors:
    if endpoint.rng.random() < 0.4:
        raise ProviderFailed("The provider's reply cannot be used: its JSON is broken or cut off")
    return reply


def unreachable() -> ProviderFailed:
    return ProviderFailed("the provider cannot be reached: no connection")


OF_THE_ENDPOINT: Mapping[str, Fault] = MappingProxyType(
    {
        "500 always": answers(lambda: refused(500)),
        "429 that asks for 20 s": answers(lambda: refused(429, retry_after="20")),
        "429 that asks for 1 s": answers(lambda: refused(429, retry_after="1")),
        "429 that asks for nothing": answers(lambda: refused(429)),
        "100 requests a minute": limited(100),
        "3 requests a minute": limited(3),
        "refuses connections": answers(unreachable),
        "hangs": hangs(),
        "is slow": slow,
        "wrong dimension": spoils(lambda reply: reply[:, :-1]),
        "too few vectors": spoils(lambda reply: reply[:-1]),
        "broken JSON now and then": flaky,
        "401 until repaired": answers(lambda: refused(401)),
    }
)
OF_ONE_TEXT: Mapping[str, Fault] = MappingProxyType(
    {
        "500 for one text": answers(lambda: refused(500), only=POISON),
        "400 for one text": answers(lambda: refused(400), only=POISON),
        "413 for one text": answers(lambda: refused(413), only=POISON),
        "403 for one text": answers(lambda: refused(403), only=POISON),
        "429 for one text": answers(lambda: refused(429), only=POISON),
        "NaN for one text": spoils(lambda reply: reply * np.nan, only=POISON),
        "too few vectors with one text": spoils(lambda reply: reply[:-1], only=POISON),
        "hangs for one text": hangs(only=POISON),
        "breaks for one text": answers(lambda: ProviderFailed("its JSON is broken"), only=POISON),
    }
)


@dataclass
class TenMinutes:
    """A daemon's lane and calibration, from its start on."""

    fault: Fault | None
    starts_well: bool
    degraded: int = 0
    requests: int = 0
    missing: int = 0
    calibration: str = ""

    async def live(self, folder: Path) -> TenMinutes:
        timer = PatientTimer()
        endpoint = Endpoint(timer, None if self.starts_well else self.fault)
        storage = await SqliteStorage.open(folder / DATABASE_NAME, clock=timer.now)
        timer.storage = WatchedStorage(storage)

        async def at_once(_: Space) -> None: ...

        lane = Lane(
            cast("Storage", timer.storage),
            endpoint,
            EmbeddingSettings(),
            clock=timer.now,
            timer=timer,
            leads=lambda _: True,
            permit=at_once,
        )
        await lane.builder.open()
        calibrating = Calibrator([lane], folder, sleep=lambda seconds: sleep(timer, round(seconds * 1_000)))
        tasks = [asyncio.create_task(lane.run()), asyncio.create_task(calibrating.run())]
        try:
            await self._live(timer, endpoint, lane, cast("Storage", timer.storage))
            self.calibration = calibrating.state(endpoint)
        finally:
            await timer.run(lane.queue.stop(timeout=0))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await storage.close()
        return self

    async def _live(self, timer: PatientTimer, endpoint: Endpoint, lane: Lane, storage: Storage) -> None:
        stores = EntryStore(storage, lane.queue.enqueue, clock=timer.now)
        saves = dict.fromkeys(range(0, STEPS, STEPS // SAVES)[:SAVES])
        for step in range(STEPS):
            if step == 1:
                endpoint.fault = self.fault
            if step in saves:
                number = list(saves).index(step)
                text = f"note {number} about the {'harbour' if number != 3 else POISON}"
                await stores.save_fields("observation", {"content": text}, SaveContext(session="s"))
            await timer.advance(STEP_MS)
            self.degraded += step > 0 and lane.builder.searched is None
        self.requests = len(endpoint.calls)
        if self.fault not in OF_ONE_TEXT.values():
            endpoint.fault = None
        endpoint.well.set()
        await timer.advance(60_000)
        self.missing = SAVES - lane.queue.status().embedded
        self.degraded += 1_000 * (lane.builder.searched is None)


async def lived(folder: Path, fault: Fault | None, *, starts_well: bool = False) -> TenMinutes:
    await asyncio.to_thread(folder.mkdir)
    with capture_logs():
        return await TenMinutes(fault, starts_well).live(folder)


@pytest.fixture(autouse=True)
def files_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    monkeypatch.setattr(asyncio, "to_thread", at_once)


async def test_faults_of_the_endpoint_cost_few_requests_and_everything_is_embedded_afterwards(
    tmp_path: Path,
) -> None:
    healthy = await lived(tmp_path / "healthy", None)
    assert (healthy.missing, healthy.degraded, healthy.calibration) == (0, 0, "ready")
    most, failures = 3 * healthy.requests + 22, []
    for name, fault in some(list(OF_THE_ENDPOINT.items()), 5):
        for starts_well in (False, True):
            after = await lived(tmp_path / f"{name} {starts_well}", fault, starts_well=starts_well)
            if after.requests > most or after.missing or after.degraded >= 1_000:
                failures.append(f"{name}, {starts_well=}: at most {most} requests: {after}")
    assert not failures, "\n".join(failures)


async def test_one_bad_text_costs_few_requests_and_degrades_nothing(tmp_path: Path) -> None:
    healthy = await lived(tmp_path / "healthy", None)
    most, failures = 3 * healthy.requests + 22, []
    for name, fault in some(list(OF_ONE_TEXT.items()), 5):
        after = await lived(tmp_path / name, fault)
        most_degraded = 1 if name.startswith("429") else 0  # at first, a limit is taken for one
        if after.requests > most or after.missing != 1 or after.degraded > most_degraded:
            failures.append(f"{name}: at most {most} requests: {after}")
    assert not failures, "\n".join(failures)
