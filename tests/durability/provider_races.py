"""Edits and deletions in every store race against batches at the provider: no vector may be stale."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast
from unittest.mock import patch

from structlog.testing import capture_logs

from agentctx.config.embedding import QueueSettings
from agentctx.config.schema import CollectionSettings
from agentctx.embedding.providers.fake import DEFAULT_DIMENSION, FakeProvider
from agentctx.embedding.queue.space_builder import SpaceBuilder
from agentctx.embedding.queue.timing import LoopTimer
from agentctx.embedding.queue.worker import EmbeddingQueue
from agentctx.errors import NotFound
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.storage.jobs import OutboxStorage
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.records import Job
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.queue import jobs
from agentctx.storage.vectors import Vectors
from agentctx.times import wall_clock
from tests.durability.provider_vectors import Judge, look
from tests.durability.suite import Outcome, all_noticed
from tests.durability.words import unfound_in

BATCH = 32
"""Races per round: one for each entry of a batch."""
ROUND_S = 60.0
COLLECTIONS = ("knowledge", "observation", "reflection", "learning", "notes")
MOMENTS = ("at the provider", "with the reply", "while it is stored")
_WORDS = ("amber", "basalt", "cedar", "delta", "ember", "fjord", "granite", "harbor", "indigo", "kelp")

Act: TypeAlias = Callable[[], Awaitable[object]]


class RacingJobs:
    """Signals when a batch returns, and lets others act while it is stored."""

    def __init__(self, jobs: OutboxStorage) -> None:
        self._jobs = jobs
        self.when_storing: Callable[[], None] = lambda: None
        self.when_stored: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def complete(self, done: Sequence[Job], vectors: Vectors) -> int:
        self.when_storing()
        stored = await self._jobs.complete(done, vectors)
        if self.when_stored is not None:
            await self.when_stored()
        return stored


@dataclass
class Races:
    """Rounds over one storage. Each changes or forgets every text of a batch that is at the provider."""

    rng: random.Random
    storage: SqliteStorage
    violations: list[str] = field(default_factory=list)
    races: int = 0
    late: int = 0
    serial: int = 0

    def __post_init__(self) -> None:
        self.provider = FakeProvider()
        self.racing = RacingJobs(self.storage.jobs)
        storage, jobs = self.storage, cast("OutboxStorage", self.racing)
        timer = LoopTimer(wall_clock)
        settings = QueueSettings(batch_size=8 * BATCH, batch_wait_ms=1)
        self.queue = EmbeddingQueue(jobs, self.provider, settings, clock=wall_clock, timer=timer)
        self.builder = SpaceBuilder(storage, self.provider, self.queue, timer=timer)
        declared = {"notes": CollectionSettings()}
        self.stores = EntryStore(storage, self.queue.enqueue, clock=wall_clock, declared=declared)
        self.judge = Judge(FakeProvider().embed, DEFAULT_DIMENSION)
        self.tasks: list[asyncio.Task[object]] = []

    async def run(self, rounds: int) -> None:
        await self.builder.open()
        self.queue.start()
        await self.builder.run()
        try:
            for _ in range(rounds):
                async with asyncio.timeout(ROUND_S):
                    await self._round()
                if self.violations:
                    break
            await self._check("the end")
        except TimeoutError:
            self.violations.append(f"after {self.races} races: a round takes longer than {ROUND_S:g} s")
        finally:
            self.provider.release()
            await self.queue.stop(timeout=0)

    async def _round(self) -> None:
        """Run a round: the provider delays the batch, so changes come before, with and after its reply."""
        self.provider.hold(queries=False)
        self.queue.pause("a batch is collected")
        contenders = await asyncio.gather(*(self._contender() for _ in range(BATCH)))
        acts: dict[str, list[Act]] = {moment: [] for moment in MOMENTS}
        for act in contenders:
            acts[self.rng.choice(MOMENTS)].append(act)
        self.late += len(acts["while it is stored"])
        self.queue.resume()
        await self.provider.wait_until_held()
        self.racing.when_storing = lambda: self._begin(acts["while it is stored"])
        self.racing.when_stored = self._check_snapshot
        await asyncio.gather(*(act() for act in acts["at the provider"]))
        self._begin(acts["with the reply"])
        self.provider.release()
        await self._settled()
        self.races += BATCH
        await self._check(f"race {self.races}")

    async def _settled(self) -> None:
        """Assert that no race was lost and no job is pending."""
        while True:
            await self.queue.idle()
            open_tasks = [task for task in self.tasks if not task.done()]
            if not open_tasks and not (await self.storage.jobs.depth()).pending:
                break
            self.queue.recheck_table()
            await asyncio.gather(*open_tasks)
        for task in self.tasks:
            task.result()
        self.tasks.clear()

    def _begin(self, acts: list[Act]) -> None:
        self.tasks += [asyncio.create_task(_coroutine(act)) for act in acts]
        acts.clear()

    async def _contender(self) -> Act:
        """Save an entry, whose text goes to the provider, and choose what then happens to it."""
        collection, pick = self.rng.choice(COLLECTIONS), self.rng.random()
        fields = self._fields(collection)
        saved = await self._save(collection, fields)
        choices: list[Act] = [
            lambda: self._edit(saved, collection, self._change(collection)),
            lambda: self._edit(saved, collection, {"tags": [self._word()]}),
            lambda: self.stores.delete(saved),
            lambda: self._there_and_back(saved, collection, fields),
            lambda: self._forget_and_save(saved, collection, fields),
        ]
        if collection in {"knowledge", "notes"}:
            choices.append(lambda: self._save(collection, {**fields, "content": self._text()}))
        if collection == "learning":
            choices.append(lambda: self._save(collection, fields))
            choices.append(lambda: self.stores.record_outcome(saved, success=True))
        return choices[int(pick * len(choices))]

    async def _save(self, collection: str, fields: dict[str, Any]) -> str:
        session = "s" if collection in {"observation", "reflection"} else None
        return (await self.stores.save_fields(collection, fields, SaveContext(session=session))).id

    async def _edit(self, entry_id: str, collection: str, changes: dict[str, Any]) -> None:
        await self.stores.edit(entry_id, changes)

    async def _there_and_back(self, entry_id: str, collection: str, fields: dict[str, Any]) -> None:
        """Edit twice, so that the final text equals the one at the provider, in a later version."""
        await self._edit(entry_id, collection, self._change(collection))
        name = "fix" if collection == "learning" else "content"
        await self._edit(entry_id, collection, {name: fields[name]})

    async def _forget_and_save(self, entry_id: str, collection: str, fields: dict[str, Any]) -> None:
        """Save the same text again, as another entry."""
        await self.stores.delete(entry_id)
        try:
            await self.stores.get(entry_id)
        except NotFound:
            await self._save(collection, fields)
        else:
            self.violations.append(f"{entry_id} is there after it was forgotten")

    def _fields(self, collection: str) -> dict[str, Any]:
        self.serial += 1
        if collection == "learning":
            return {"trigger": f"step {self.serial}", "diagnosis": self._text(), "fix": self._text()}
        fields: dict[str, Any] = {"content": self._text()}
        if collection in {"knowledge", "notes"}:
            fields |= {"key": f"key {self.serial}"}
        return {**fields, "category": "fact"} if collection == "knowledge" else fields

    def _change(self, collection: str) -> dict[str, Any]:
        return {"fix" if collection == "learning" else "content": self._text()}

    def _text(self) -> str:
        """Return a text; some have several chunks."""
        self.serial += 1
        count = self.rng.choice([4, 4, 4, 200])
        return f"text {self.serial} " + " ".join(self.rng.choices(_WORDS, k=count))

    def _word(self) -> str:
        self.serial += 1
        return f"tag{self.serial}"

    @property
    def _space(self) -> int:
        assert self.builder.searched is not None
        return self.builder.searched

    async def _check_snapshot(self) -> None:
        """Check, right after a batch was stored, that every vector belongs to the current text."""
        wrong = await self.judge.wrong(await look(self.storage, self._space))
        self.violations += [f"during race {self.races + 1}: {problem}" for problem in wrong]

    async def _check(self, when: str) -> None:
        wrong = await self.judge.wrong(await look(self.storage, self._space), missing=())
        census, depth = await self.storage.upkeep.census(), await self.storage.jobs.depth()
        if census.violations or depth.pending or depth.buried:
            wrong.append(f"{census}, {depth}")
        wrong += await unfound_in(self.storage)
        self.violations += [f"{when}: {problem}" for problem in wrong]


class RacesSuite:
    name = "provider_races"
    unit = "races"
    ci_n = 512
    torture_n = 10_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        races = _raced(seed, folder, -(-n // BATCH))
        figures: dict[str, float | str] = {"while the batch was stored": races.late}
        return Outcome(races.races, tuple(races.violations), figures)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        def search(name: str, place: Path) -> Outcome:
            with _MUTANTS[name]():
                races = _raced(seed, place, 4)
            return Outcome(races.races, tuple(races.violations))

        return all_noticed(_MUTANTS, folder, search)


def _raced(seed: int, folder: Path, rounds: int) -> Races:
    async def race() -> Races:
        storage = await SqliteStorage.open(folder / DATABASE_NAME)
        races = Races(random.Random(seed), storage)
        try:
            await races.run(rounds)
        finally:
            await storage.close()
        return races

    with capture_logs():
        return asyncio.run(race())


async def _coroutine(act: Act) -> object:
    return await act()


def _fence_by_chunk(connection: Any, job: Job) -> bool:
    """Return whether the chunk still has a pending job, for any text."""
    deleted = connection.execute("DELETE FROM jobs WHERE chunk = ? AND space = ?", (job.chunk, job.space))
    return bool(deleted.rowcount)


def _no_fence(connection: Any, job: Job) -> bool:
    _fence_by_chunk(connection, job)
    return bool(connection.execute("SELECT 1 FROM chunks WHERE id = ?", (job.chunk,)).fetchone())


_MUTANTS: dict[str, Callable[[], Any]] = {
    "fenced by the chunk alone": lambda: patch.object(jobs, "_take", _fence_by_chunk),
    "not fenced": lambda: patch.object(jobs, "_take", _no_fence),
}

SUITE = RacesSuite()
