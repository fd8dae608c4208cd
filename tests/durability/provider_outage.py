"""The provider is down for a whole day while texts are saved: a manual clock, everything else real."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from structlog.testing import capture_logs

from agentctx.config.embedding import QueueSettings
from agentctx.embedding.providers.fake import DEFAULT_DIMENSION, FakeFault, FakeProvider
from agentctx.embedding.queue.space_builder import SpaceBuilder
from agentctx.embedding.queue.worker import EmbeddingQueue
from agentctx.errors import AgentctxError, Disposition
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.storage.base import Storage
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.search import word_index
from tests.durability.provider_vectors import Judge, look
from tests.durability.simulation import MUTANTS, Mutate
from tests.durability.suite import Outcome, all_noticed
from tests.durability.words import unfound_in
from tests.embedding.queue.manual_timer import ManualTimer

HOURS = 24
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
PROBES_PER_HOUR = 130
RECOVERY_MS = 2 * HOUR_MS
"""The longest pause a provider asks for, one hour, plus the backoff of the texts that probed it."""
NAMESPACES = ("ops", "shop", "home")
_SERIAL = re.compile(r"outage of (\w+), note (\d+):")


class Outage:
    """The kinds of outage. Each makes every call fail."""

    KINDS = (
        "unreachable",
        "overloaded",
        "asks for an hour",
        "hangs",
        "refuses the key",
        "too few vectors",
    )

    def __init__(self, provider: FakeProvider) -> None:
        self._provider = provider
        self._faults = {
            "unreachable": FakeFault.fails(Disposition.RETRY),
            "overloaded": FakeFault.fails(Disposition.LATER, retry_after_s=20),
            "asks for an hour": FakeFault.fails(Disposition.LATER, retry_after_s=3_600),
            "hangs": FakeFault.fails(Disposition.RETRY),
            "refuses the key": FakeFault.fails(Disposition.STOP),
            "too few vectors": FakeFault.wrong_count(),
        }

    def become(self, kind: str) -> None:
        self._provider.faults = [self._faults[kind]]
        if kind == "hangs":
            self._provider.hold(queries=False)
        else:
            self._provider.release()

    def end(self) -> None:
        self._provider.faults = []
        self._provider.release()


class WatchedStorage:
    """Knows when the storage's threads are busy: the clock must not move meanwhile."""

    def __init__(self, storage: SqliteStorage) -> None:
        self._storage = storage
        self.working = 0
        self.changed = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return self._watched(getattr(self._storage, name))

    def _watched(self, found: Any) -> Any:
        if hasattr(found, "db"):
            return WatchedPart(found, self._watched)
        return self._counted(found) if asyncio.iscoroutinefunction(found) else found

    def _counted(self, method: Any) -> Any:
        async def counted(*arguments: Any, **named: Any) -> Any:
            self.working += 1
            try:
                return await method(*arguments, **named)
            finally:
                self.working -= 1
                self.changed.set()

        return counted


class WatchedPart:
    """A part of a watched storage."""

    def __init__(self, part: Any, watched: Callable[[Any], Any]) -> None:
        self._part = part
        self._watched = watched

    def __getattr__(self, name: str) -> Any:
        return self._watched(getattr(self._part, name))


class PatientTimer(ManualTimer):
    """Stops the clock while the storage is busy."""

    storage: WatchedStorage | None = None

    async def settle(self) -> None:
        await super().settle()
        while self.storage is not None and self.storage.working:
            self.storage.changed.clear()
            await self.storage.changed.wait()
            await super().settle()


@dataclass
class Day:
    """One outage. Saves arrive all day, in bursts that the seed chooses."""

    seed: int
    saves: int
    hours: int
    violations: list[str] = field(default_factory=list)
    acknowledged: int = 0
    most_calls: int = 0
    kinds: list[str] = field(default_factory=list)
    drained_s: float = 0.0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.timer = PatientTimer()
        self.provider = FakeProvider()
        self.outage = Outage(self.provider)

    async def live(self, folder: Path) -> None:
        storage = await SqliteStorage.open(folder / DATABASE_NAME, clock=self.timer.now)
        watched = self.timer.storage = WatchedStorage(storage)
        self.storage = cast("Storage", watched)
        queue = EmbeddingQueue(
            self.storage.jobs,
            self.provider,
            QueueSettings(),
            clock=self.timer.now,
            timer=self.timer,
            rng=random.Random(self.rng.random()),
        )
        self.stores = EntryStore(self.storage, queue.enqueue, clock=self.timer.now)
        builder = SpaceBuilder(self.storage, self.provider, queue, timer=self.timer, rng=self.rng)
        try:
            await self._live(storage, queue, builder)
        except AssertionError as error:
            self.violations.append(f"stuck: {error}")
        finally:
            self.outage.end()
            await self.timer.run(queue.stop(timeout=0))
            await storage.close()

    async def _live(self, storage: SqliteStorage, queue: EmbeddingQueue, builder: SpaceBuilder) -> None:
        await builder.open()
        queue.start()
        await self.timer.run(builder.run())
        before = len(self.provider.calls)
        for hour, count in enumerate(_shared_out(self.saves, self.hours)):
            await self._hour(hour, count)
        if queue.status().state != "degraded":
            self.violations.append("the queue does not say that its provider is out")
        recovered, began = len(self.provider.calls), self.timer.now()
        self.outage.end()
        await self.timer.until(lambda: queue.status().embedded >= self.acknowledged, RECOVERY_MS)
        self.drained_s = (self.timer.now() - began) / 1000
        self._check_order(before, recovered)
        await self._check_storage(storage, builder.searched)

    async def _hour(self, hour: int, count: int) -> None:
        """Pass an hour of another kind of outage, in steps of a minute."""
        self.kinds.append(self.rng.choice(Outage.KINDS))
        self.outage.become(self.kinds[-1])
        before = len(self.provider.calls)
        bursts: defaultdict[int, int] = defaultdict(int)
        for _ in range(count):
            bursts[self.rng.randrange(60)] += 1
        for minute in range(60):
            await self._save(bursts[minute])
            await self.timer.advance(MINUTE_MS)
        calls = len(self.provider.calls) - before
        self.most_calls = max(self.most_calls, calls)
        if calls > PROBES_PER_HOUR:
            self.violations.append(f"hour {hour} ({self.kinds[-1]}): {calls} calls")

    async def _save(self, count: int) -> None:
        """Save a burst concurrently, and look one text up right after its acknowledgement."""
        first = self.acknowledged
        # Each namespace has one writer, so its texts are saved in the order of their numbers.
        await asyncio.gather(
            *(
                self._save_in_turn(place, range(first + at, first + count, len(NAMESPACES)))
                for at, place in enumerate(NAMESPACES)
            )
        )
        if count and (number := self.rng.randrange(first, first + count)) is not None:
            await self._find(NAMESPACES[(number - first) % len(NAMESPACES)], number)

    async def _save_in_turn(self, namespace: str, numbers: range) -> None:
        for number in numbers:
            context = SaveContext(namespace=namespace, session="s")
            content = f"outage of {namespace}, note {number}: {_word(number)} was seen"
            try:
                await self.stores.save_fields("observation", {"content": content}, context)
            except AgentctxError as error:
                self.violations.append(f"save {number} was refused: {error.message}")
            self.acknowledged += 1

    async def _find(self, namespace: str, number: int) -> None:
        hits = (await self.storage.search.by_words(_word(number), Filter(namespace=namespace), 5)).hits
        if len(hits) != 1:
            self.violations.append(f"save {number} is found by words {len(hits)} times")

    def _check_order(self, before: int, recovered: int) -> None:
        """Check that texts without a failed call are sent in the order of their namespace's saves."""
        failed = {text for call in self.provider.calls[before:recovered] for text in call.texts}
        last: dict[str, int] = {}
        for text in (text for call in self.provider.calls[recovered:] for text in call.texts):
            if text not in failed and (found := _SERIAL.search(text)):
                namespace, number = found[1], int(found[2])
                if number <= last.get(namespace, -1):
                    self.violations.append(f"{namespace}: {number} went after {last[namespace]}")
                last[namespace] = number

    async def _check_storage(self, storage: SqliteStorage, space: int | None) -> None:
        depth, census = await storage.jobs.depth(), await storage.upkeep.census()
        if depth.pending or depth.buried:
            self.violations.append(f"the end: {depth.pending} pending, {depth.buried} buried")
        if census.violations or not census.entries == census.vectors == self.acknowledged:
            self.violations.append(f"the end: {census} of {self.acknowledged} saved")
        for namespace in NAMESPACES:
            self.violations += await unfound_in(storage, namespace)
        if space is None:
            self.violations.append("the end: nothing is searched by meaning")
            return
        judge = Judge(FakeProvider().embed, DEFAULT_DIMENSION)
        self.violations += await judge.wrong(await look(storage, space), missing=())


class OutageSuite:
    name = "provider_outage"
    unit = "saves"
    ci_n = 500
    torture_n = 10_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        """Run one outage of a day."""
        began = time.monotonic()
        day = _lived(Day(seed, n, HOURS), folder)
        figures: dict[str, float | str] = {
            "simulated hours": HOURS,
            "kinds of outage": len(set(day.kinds)),
            "most calls in an hour": float(day.most_calls),
            "simulated s until nothing was pending": day.drained_s,
            "saves per second": n / (time.monotonic() - began),
        }
        return Outcome(day.acknowledged, tuple(day.violations), figures)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        def search(name: str, place: Path) -> Outcome:
            with _MUTANTS[name]():
                day = _lived(Day(seed, 100, 1), place)
            return Outcome(day.acknowledged, tuple(day.violations))

        return all_noticed(_MUTANTS, folder, search)


def _lived(day: Day, folder: Path) -> Day:
    with capture_logs(), suppress(asyncio.CancelledError):
        asyncio.run(day.live(folder))
    return day


def _shared_out(count: int, places: int) -> list[int]:
    return [count * (at + 1) // places - count * at // places for at in range(places)]


def _word(number: int) -> str:
    """Return a word that no other note has."""
    return "z" + "".join("abcdefghij"[int(digit)] for digit in f"{number:05}") + "q"


_MUTANTS: dict[str, Mutate] = {
    "a transient fault buries": MUTANTS["a transient fault buries"],
    "the pauses do not grow": MUTANTS["the pauses do not grow"],
    "no words until embedded": lambda: patch.object(word_index, "insert", lambda *_: None),
}

SUITE = OutageSuite()
