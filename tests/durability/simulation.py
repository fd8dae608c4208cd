"""The queue, its storage and the stores on a clock that only the simulation moves: one seed is one history.

Everything is real but the provider and the clock. The provider fails as `FAULTS` says, some texts are poison
for it, the storage fails by chance; entries are changed while their texts are at the provider; days pass in
seconds. After each step nothing may be missing, stale or given up without need.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, cast
from unittest.mock import patch

import numpy as np
from structlog.testing import capture_logs

from agentctx.config.embedding import QueueSettings
from agentctx.embedding.queue import diagnosis, retry
from agentctx.embedding.queue.retry import MOST_TRIES, Backoff, PostponedJobs, RetryVerdict
from agentctx.embedding.queue.space_builder import SpaceBuilder
from agentctx.embedding.queue.worker import EmbeddingQueue
from agentctx.errors import Disposition, ProviderFailed, StorageFailed, StorageFull
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.storage.base import Storage
from agentctx.storage.file.driver import Connection
from agentctx.storage.jobs import OutboxStorage
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.queue import jobs
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.vectors import Vectors
from tests.durability.patient_timer import PatientTimer, WatchedStorage
from tests.durability.provider_vectors import Judge, look
from tests.durability.suite import Outcome, all_noticed
from tests.durability.words import unfound_in
from tests.embedding.queue.manual_timer import START
from tests.embedding.queue.scripted_provider import DIMENSION, ScriptedProvider, good_reply

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
STEPS: Final = 12
CALLS_PER_HOUR: Final = 130
CALLS_WITH_PAUSES: Final = 175
"""In an hour, if the provider asks for pauses that are short: it gets a text and a canary each time."""
CALLS_AT_FIRST: Final = 10
"""Seconds until the breaker is open, while its pauses are still short."""
RACERS: Final = 8
RECOVERY_MINUTES: Final = 200
"""The longest pause a provider asks for, one hour, plus the backoff of the texts that probed it."""
CONTROL_SEEDS: Final = 40
COLLECTIONS: Final = ("knowledge", "observation", "learning")

Act: TypeAlias = Callable[[], Awaitable[object]]


def _failing(disposition: Disposition, retry_after_s: float | None = None) -> Callable[[], None]:
    def fail() -> None:
        raise ProviderFailed("fault", disposition=disposition, retry_after_s=retry_after_s)

    return fail


def _crash() -> None:
    raise ValueError("a bug of the provider")


FAULTS: Final[Mapping[str, Callable[[], None]]] = {
    "unreachable": _failing(Disposition.RETRY),
    "unreachable for a moment": _failing(Disposition.RETRY, 3),
    "overloaded": _failing(Disposition.LATER, 20),
    "asks for an hour": _failing(Disposition.LATER, 3_600),
    "refuses the key": _failing(Disposition.STOP),
    "crashes": _crash,
    "too few vectors": lambda: None,
    "hangs": lambda: None,
}
"""How a call fails, whatever its texts. The last two are done by `World.answer` and by the gate."""
SHORT_PAUSES: Final = ("unreachable for a moment", "overloaded")
POISON: Final[Mapping[str, Disposition | None]] = {
    "zzrefused": Disposition.SPLIT,
    "zzunembeddable": Disposition.BURY,
    "zznotanumber": None,
}
"""Words of texts that make each call fail; None: the vector is not a number."""


class HookedJobs:
    """The jobs of a storage that fails by chance, and lets others act while a batch is stored."""

    def __init__(self, jobs: OutboxStorage, world: World) -> None:
        self._jobs = jobs
        self._world = world
        self.is_cut_off = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._jobs, name)

        async def hooked(*arguments: Any, **named: Any) -> Any:
            if self.is_cut_off:
                raise StorageFailed("the process is gone")
            self._world.storage_fault(name)
            if name == "complete":
                self._world.begin_late()
            done = await method(*arguments, **named)
            if name == "complete":
                await self._world.check_vectors("while a batch is stored")
            return done

        return hooked


@dataclass
class World:
    """A queue over a storage and a provider, all of which fail at random while `is_rough`."""

    seed: int
    folder: Path
    violations: list[str] = field(default_factory=list)
    saved: int = 0
    is_rough: bool = True
    fault: str | None = None

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.timer = PatientTimer()
        self.provider = ScriptedProvider(self.answer)
        self.failed_alone: Counter[str] = Counter()
        self.judge = Judge(_good_vectors, DIMENSION)
        self.entries: dict[str, str] = {}
        self.late: list[Act] = []
        self.running: list[asyncio.Task[object]] = []

    async def live(self) -> None:
        """Run one history. One that never ends is a violation as well."""
        sqlite = await SqliteStorage.open(self.folder / DATABASE_NAME, clock=self.timer.now)
        watched = self.timer.storage = WatchedStorage(sqlite)
        self.sqlite, self.storage = sqlite, cast("Storage", watched)
        self.look = watched.counted(look)
        self.new_queue()
        try:
            await self._live()
        except (AssertionError, TimeoutError) as error:
            self.violations.append(f"stuck: {error}")
        finally:
            self.provider.gate.set()
            await self.timer.run(self.queue.stop(timeout=0))
            await sqlite.close()

    async def _live(self) -> None:
        self.is_rough = False
        builder = SpaceBuilder(self.storage, self.provider, self.queue, timer=self.timer, rng=self.rng)
        await builder.open()
        self.queue.start()
        await self.timer.run(builder.run())
        assert builder.searched is not None
        self.space = builder.searched
        for _ in range(STEPS):
            self.is_rough = self.rng.random() < 0.8
            action = self.rng.choice(ACTIONS)
            await action(self)
            await self.timer.advance(self.rng.choice([0, 60, 5_000, 400_000]))
            await self.check(f"after {action.__name__}")
        await self.recover()

    def new_queue(self) -> None:
        self.jobs = HookedJobs(self.storage.jobs, self)
        settings = QueueSettings(
            batch_size=self.rng.choice([1, 4, 32]), capacity=self.rng.choice([8, 64]), call_timeout_s=20.0
        )
        self.queue = EmbeddingQueue(
            cast("OutboxStorage", self.jobs),
            self.provider,
            settings,
            clock=self.timer.now,
            timer=self.timer,
            rng=random.Random(self.rng.random()),
        )
        self.stores = EntryStore(self.storage, self.queue.enqueue, clock=self.timer.now)

    def storage_fault(self, operation: str) -> None:
        if self.is_rough and self.rng.random() < 0.1:
            raise self.rng.choice([StorageFull("full"), StorageFailed(f"{operation} failed")])

    def answer(self, batch: Sequence[str]) -> Vectors:
        try:
            reply = self._answer(batch)
        except Exception:
            self.failed_alone.update(batch if len(batch) == 1 else ())
            raise
        self.failed_alone.update(batch if len(batch) == 1 and len(reply) != 1 else ())
        return reply

    def _answer(self, batch: Sequence[str]) -> Vectors:
        fault = self.fault
        if self.is_rough and fault is None and self.rng.random() < 0.5:
            fault = self.rng.choice([name for name in FAULTS if name != "hangs"])
        if fault is not None:
            FAULTS[fault]()
        reply = good_reply(batch)
        for word, disposition in POISON.items():
            poisoned = [word in text for text in batch]
            if any(poisoned) and disposition is not None:
                raise ProviderFailed(word, disposition=disposition)
            reply[poisoned] = np.nan
        return reply[:-1] if fault == "too few vectors" else reply

    def is_guilty(self, text: str) -> bool:
        """Whether a text may be buried: it is poison, or failed alone as often by chance."""
        return any(word in text for word in POISON) or self.failed_alone[text] >= MOST_TRIES

    # What happens in a history.

    async def save(self) -> None:
        for _ in range(self.rng.randint(1, 20)):
            await self.save_one()

    async def save_one(self, word: str = "") -> str:
        collection = self.rng.choice(COLLECTIONS)
        fields = self._fields(collection, word)
        session = "s" if collection == "observation" else None
        saved = await self.stores.save_fields(collection, fields, SaveContext(session=session))
        self.entries[saved.id] = collection
        return saved.id

    def _fields(self, collection: str, word: str) -> dict[str, Any]:
        text = self._text(word)
        if collection == "learning":
            return {"trigger": f"step {self.saved}", "diagnosis": text, "fix": self._text()}
        fields = {"content": text}
        return (
            {**fields, "key": f"key {self.saved}", "category": "fact"}
            if collection == "knowledge"
            else fields
        )

    def _text(self, word: str = "") -> str:
        """Return a text with a word of its own; some have several chunks."""
        self.saved += 1
        own = "z" + "".join("bcdfghjkmn"[int(digit)] for digit in f"{self.saved:05}") + "q"
        count = self.rng.choice([4, 4, 4, 200])
        return f"{own} {word} " + " ".join(self.rng.choices(["amber", "basalt", "cedar", "delta"], k=count))

    async def poison(self) -> None:
        if (await self.storage.jobs.depth()).buried < 4:
            await self.save_one(self.rng.choice(list(POISON)))

    async def change(self) -> None:
        await self._change_of(await self._any_entry())()

    async def _any_entry(self) -> str:
        return self.rng.choice(list(self.entries)) if self.entries else await self.save_one()

    def _change_of(self, entry: str) -> Act:
        """Choose what happens to an entry."""
        name = "fix" if self.entries[entry] == "learning" else "content"

        async def there_and_back() -> None:
            """Edit twice, so that the text at the provider is current again, in a later version."""
            before = await self.stores.get(entry)
            old = before.attributes["fix"] if name == "fix" else before.content
            await self.stores.edit(entry, {name: self._text()})
            await self.stores.edit(entry, {name: old})

        async def forget() -> None:
            del self.entries[entry]
            await self.stores.delete(entry)

        return self.rng.choice(
            [
                lambda: self.stores.edit(entry, {name: self._text()}),
                lambda: self.stores.edit(entry, {"tags": [f"tag{self.saved}"]}),
                there_and_back,
                forget,
            ]
        )

    async def race(self) -> None:
        """Change entries while their texts are at the provider, with its reply, and while that is stored."""
        self.is_rough = False
        self.provider.gate.clear()
        acts = [self._change_of(await self.save_one()) for _ in range(RACERS)]
        await self.timer.advance(1_000)
        third = RACERS // 3
        for act in acts[:third]:
            await act()
        self.late = acts[third : 2 * third]
        self.running += [asyncio.create_task(_coroutine(act)) for act in acts[2 * third :]]
        self.provider.gate.set()
        await self.timer.advance(1_000)
        self.begin_late()
        await asyncio.gather(*self.running)
        self.running.clear()

    def begin_late(self) -> None:
        self.running += [asyncio.create_task(_coroutine(act)) for act in self.late]
        self.late.clear()

    async def outage(self) -> None:
        """Fail every call for an hour or more during saves; there may be only so many calls."""
        self.is_rough, self.fault = False, self.rng.choice(list(FAULTS))
        if self.fault == "hangs":
            self.provider.gate.clear()
        per_hour = CALLS_WITH_PAUSES if self.fault in SHORT_PAUSES else CALLS_PER_HOUR
        hours, before = self.rng.choice([1, 1, 1, 6]), len(self.provider.calls)
        for _ in range(20):
            await self.save_one()
            await self.timer.advance(HOUR_MS // 20)
        await self.timer.advance((hours - 1) * HOUR_MS)
        calls, most = len(self.provider.calls) - before, per_hour * hours + CALLS_AT_FIRST
        if calls > most:
            self.violations.append(f"{self.fault}: {calls} calls in {hours} h, {most} are enough")
        if self.queue.status().state != "degraded" and self.fault != "hangs":  # questions are still answered
            self.violations.append(f"{self.fault}: the queue says {self.queue.status()}")
        self.fault = None
        self.provider.gate.set()

    async def hang(self) -> None:
        self.provider.gate.clear()
        await self.timer.advance(self.rng.choice([1_000, 100_000]))
        self.provider.gate.set()

    async def leap(self) -> None:
        await self.timer.advance(self.rng.choice([HOUR_MS, 48 * HOUR_MS]))

    async def crash(self) -> None:
        """End the queue without a chance to give its leases back."""
        self.jobs.is_cut_off = True
        assert self.queue.task is not None
        self.queue.task.cancel()
        await self.timer.until(self.queue.task.done)
        self.new_queue()
        self.queue.start()

    async def stop(self) -> None:
        await self.timer.run(self.queue.stop(self.rng.choice([None, 0, 3])))
        self.new_queue()
        self.queue.start()

    async def recover(self) -> None:
        """End the faults; good texts show that the provider works, poison alone would not."""
        self.is_rough = False
        for minute in range(RECOVERY_MINUTES):
            if not (await self.storage.jobs.depth()).pending:
                break
            if minute % 10 == 0:
                await self.save_one()
            await self.timer.advance(MINUTE_MS)
        await self.check("at the end", is_over=True)

    # What must hold.

    async def check_vectors(self, when: str) -> None:
        wrong = await self.judge.wrong(await self.look(self.sqlite, self.space))
        self.violations += [f"{when}: {problem}" for problem in wrong]

    async def check(self, when: str, *, is_over: bool = False) -> None:
        """Check that nothing is lost, stale, unfound or given up without need, and no calls overlap."""
        holding = await self.look(self.sqlite, self.space)
        buried = {
            chunk: holding.texts[chunk]
            for chunk in await self.sqlite.db.readers.run(_buried_chunks)
            if chunk in holding.texts
        }
        wrong = await self.judge.wrong(holding, missing=buried if is_over else None)
        wrong += [f"buried without need: {text!r}" for text in buried.values() if not self.is_guilty(text)]
        census, depth = await self.storage.upkeep.census(), await self.storage.jobs.depth()
        if census.violations or (is_over and depth.pending):
            wrong.append(f"{census}, {depth}")
        wrong += await unfound_in(self.sqlite)
        if self.provider.max_concurrent > 1:
            wrong.append(f"{self.provider.max_concurrent} calls at once")
        if self.queue.task is not None and self.queue.task.done() and self.queue.task.exception():
            wrong.append(f"the worker died: {self.queue.task.exception()!r}")
        self.violations += [f"{when}: {problem}" for problem in wrong]


ACTIONS: Final[Sequence[Callable[[World], Awaitable[None]]]] = (
    World.save,
    World.save,
    World.poison,
    World.change,
    World.change,
    World.race,
    World.race,
    World.outage,
    World.hang,
    World.leap,
    World.crash,
    World.stop,
)


class SimulationSuite:
    name = "simulation"
    unit = "seeds"
    ci_n = 40
    torture_n = 20_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        """Run seeds from `seed * n` on."""
        began = time.monotonic()
        worlds = [simulated(number, folder) for number in range(seed * n, (seed + 1) * n)]
        simulated_s = sum(world.timer.now() - START for world in worlds) / 1_000
        figures: dict[str, float | str] = {
            "saves": sum(world.saved for world in worlds),
            "provider calls": sum(len(world.provider.calls) for world in worlds),
            "simulated hours": round(simulated_s / 3_600),
            "times faster than real time": simulated_s / (time.monotonic() - began),
        }
        found = (f"history {world.seed}: {problem}" for world in worlds for problem in world.violations)
        return Outcome(n, tuple(found), figures)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        def search(name: str, place: Path) -> Outcome:
            with MUTANTS[name]():
                worlds = (simulated(seed + number, place) for number in range(CONTROL_SEEDS))
                return Outcome(1, next((tuple(each.violations) for each in worlds if each.violations), ()))

        return all_noticed(MUTANTS, folder, search)


def simulated(number: int, folder: Path) -> World:
    """Run the history of a seed in a folder of its own."""
    place = folder / f"history {number}"
    place.mkdir()
    world = World(number, place)
    with capture_logs():
        asyncio.run(world.live())
    return world


async def _coroutine(act: Act) -> object:
    return await act()


async def _good_vectors(texts: list[str]) -> Vectors:
    return good_reply(texts)


def _buried_chunks(connection: Connection) -> list[int]:
    return [chunk for (chunk,) in connection.execute("SELECT chunk FROM jobs WHERE state = 'buried'")]


Mutate: TypeAlias = Callable[[], Any]


def deciding(change: Callable[[Sequence[Any], RetryVerdict], RetryVerdict]) -> Mutate:
    """Return a build that changes each verdict about failed jobs."""

    @contextmanager
    def mutated() -> Iterator[None]:
        decide = retry.decide

        def wrongly(jobs: Sequence[Any], *arguments: Any, **named: Any) -> RetryVerdict:
            return change(jobs, decide(jobs, *arguments, **named))

        with patch.object(diagnosis, "decide", wrongly):
            yield

    return mutated


def _drop_one(_jobs: Sequence[Any], verdict: RetryVerdict) -> RetryVerdict:
    """Run a retry that forgets a job: it stays in memory and is never sent."""
    kept = tuple(PostponedJobs(group.jobs[1:], group.not_before) for group in verdict.postpone)
    return replace(verdict, postpone=kept)


def _bury_instead(jobs: Sequence[Any], verdict: RetryVerdict) -> RetryVerdict:
    """Run a build that blames the texts for a fault of the provider."""
    return RetryVerdict(bury=tuple(jobs)) if verdict.fault or verdict.postpone else verdict


def _bury_the_batch(jobs: Sequence[Any], verdict: RetryVerdict) -> RetryVerdict:
    """Run a build that buries a refused batch as a whole."""
    return replace(verdict, parts=(), bury=tuple(jobs)) if verdict.parts else verdict


def _fence_by_chunk(connection: Any, job: Any) -> bool:
    """Return whether the chunk still has a pending job, for any text."""
    deleted = connection.execute("DELETE FROM jobs WHERE chunk = ? AND space = ?", (job.chunk, job.space))
    return bool(deleted.rowcount)


def _no_fence(connection: Any, job: Any) -> bool:
    _fence_by_chunk(connection, job)
    return bool(connection.execute("SELECT 1 FROM chunks WHERE id = ?", (job.chunk,)).fetchone())


MUTANTS: Final[Mapping[str, Mutate]] = {
    "a retry drops a job": deciding(_drop_one),
    "a transient fault buries": deciding(_bury_instead),
    "poison takes its batch along": deciding(_bury_the_batch),
    "the pauses do not grow": lambda: patch.object(Backoff, "delay_ms", lambda *_: 1_000),
    "no words until embedded": lambda: patch.object(word_index, "insert", lambda *_: None),
    "fenced by the chunk alone": lambda: patch.object(jobs, "_take", _fence_by_chunk),
    "not fenced": lambda: patch.object(jobs, "_take", _no_fence),
}

SUITE = SimulationSuite()
