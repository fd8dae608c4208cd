"""Every fault of the fake provider server, over real HTTP, while texts are saved, edited and forgotten.

The queue's clock runs many times faster than the wall's, so that its pauses pass; the sockets' deadlines are
real ones. In the end the faults stop, but for those that belong to a text.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from structlog.testing import capture_logs

from agentctx.config.embedding import EmbeddingSettings, QueueSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.embedding.providers.registry import create_provider
from agentctx.embedding.providers.remote import wire_format
from agentctx.embedding.queue import call, diagnosis
from agentctx.embedding.queue.retry import MOST_TRIES
from agentctx.embedding.queue.space_builder import SpaceBuilder
from agentctx.embedding.queue.timing import Alarm
from agentctx.embedding.queue.worker import EmbeddingQueue
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.storage.file.driver import Connection
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.vectors import Vectors
from agentctx_testing.fake_provider.faults import KINDS, Hint, HttpFault
from agentctx_testing.fake_provider.serving import FakeProviderServer, running
from tests.durability.provider_vectors import Judge, look
from tests.durability.simulation import MUTANTS, Mutate
from tests.durability.suite import Outcome, all_noticed
from tests.durability.words import unfound_in

DIMENSION = 8
KEY = "sk-canary-4711"
MODEL = "text-embedding-3-small"
FASTER = 500
HTTP_TIMEOUT_S = 0.4
WAIT_MS = 30_000
"""Seconds a save waits for its vectors."""
DEADLINE_S = 120.0
"""Real seconds for a whole run; waiting longer means waiting forever."""
WRITERS = 2
SCRIPTED = 1_000
"""Requests that may be faulted."""
STATUSES = (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529)
HINTS: tuple[Hint | None, ...] = (None, "seconds", "date", "milliseconds", "reset_requests", "reset_tokens")
POISONS = (
    HttpFault.with_status(400, contains="poison0"),
    HttpFault.with_status(413, contains="poison1"),
    HttpFault.with_status(422, contains="poison2"),
    HttpFault(kind="nan", contains="poison3"),
    HttpFault(kind="zeros", contains="poison4"),
)
_BLAMES_A_TEXT = re.compile(r"answered (400|413|422)|not finite or is zero")
_BLAMING_KINDS = {"status", "nan", "zeros"}


class FastTimer:
    """The monotonic clock, `FASTER` times as fast."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._start = 1_750_000_000_000

    def now(self) -> int:
        return self._start + int((time.monotonic() - self._began) * 1_000 * FASTER)

    def call_at(self, at: int, callback: Callable[[], object]) -> Alarm:
        return asyncio.get_running_loop().call_later(max(0, at - self.now()) / 1_000 / FASTER, callback)


class NoticedProvider:
    """The real provider, which signals each request."""

    def __init__(self, provider: EmbeddingProvider) -> None:
        self._provider = provider
        self.calls = 0
        self._asked = asyncio.Condition()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        async with self._asked:
            self.calls += 1
            self._asked.notify_all()
        return await self._provider.embed(texts)

    async def wait_asked(self) -> None:
        """Wait for the next request."""
        known = self.calls
        async with self._asked:
            await self._asked.wait_for(lambda: self.calls > known)


def scripted(rng: random.Random) -> list[HttpFault]:
    """Plan faults: each kind in one early request, then at random; for some texts; always for poison."""
    first = rng.sample(KINDS, len(KINDS))
    later = [number for number in range(len(first), SCRIPTED) if rng.random() < 0.5]
    kinds = [*enumerate(first), *((number, rng.choice(KINDS)) for number in later)]
    by_request = [_some_fault(rng, kind, request=number + 1) for number, kind in kinds]
    by_text = [
        _some_fault(rng, rng.choice(KINDS), contains=f"number {number} ", times=rng.randint(1, 3))
        for number in rng.sample(range(SCRIPTED), SCRIPTED // 10)
    ]
    return [*by_request, *by_text, *POISONS]


def _some_fault(rng: random.Random, kind: str, **when: Any) -> HttpFault:
    fields: dict[str, Any] = {"kind": kind, **when}
    if kind == "status":
        hint = rng.choice(HINTS)
        fields |= {"status": rng.choice(STATUSES), "hint": hint, "after_s": rng.choice([0.5, 5, 60])}
    return HttpFault.model_validate(fields)


@dataclass
class Load:
    """Writers, a queue and a provider that fails."""

    rng: random.Random
    storage: SqliteStorage
    server: FakeProviderServer
    provider: NoticedProvider
    texts: int
    faults: Sequence[HttpFault]
    """At the end, only faults that belong to a text remain."""
    deadline_s: float = DEADLINE_S
    violations: list[str] = field(default_factory=list)
    saved: int = 0
    edited: int = 0
    forgotten: int = 0
    blamed: set[int] = field(default_factory=set)
    buried: int = 0
    happened: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.timer = FastTimer()
        provider = cast("EmbeddingProvider", self.provider)
        settings = QueueSettings(batch_size=8, capacity=16, lease_s=2_000)
        settings = settings.model_copy(update={"call_timeout_s": HTTP_TIMEOUT_S * FASTER * 2})
        self.queue = EmbeddingQueue(
            self.storage.jobs, provider, settings, clock=self.timer.now, timer=self.timer, rng=self.rng
        )
        self.builder = SpaceBuilder(self.storage, provider, self.queue, timer=self.timer, rng=self.rng)
        self.stores = EntryStore(self.storage, self.queue.enqueue, clock=self.timer.now)
        self.judge = Judge(FakeProvider(DIMENSION, model=MODEL).embed, DIMENSION)
        self.live: dict[str, str] = {}
        self.waiting: list[asyncio.Task[Any]] = []

    async def run(self) -> None:
        await self.builder.open()
        self.queue.start()
        await self.builder.run()
        releasing = asyncio.create_task(self._release_some())
        step = "the faults"
        try:
            async with asyncio.timeout(self.deadline_s):
                self.server.script(*self.faults)
                await asyncio.gather(*(self._write(number) for number in range(WRITERS)))
                await self._check_buried()
                step = "the end of the faults"
                self._count_faults()
                self.server.script(*POISONS)
                for _ in range(2):  # a request that was under way may still be refused by an earlier fault
                    await self.storage.jobs.retry_buried()
                    await self._recover()
                step = "those who wait"
                await asyncio.gather(*self.waiting)
                await self._check_the_end()
        except TimeoutError:
            self.violations.append(f"{step}: not over after {self.deadline_s:g} s")
        finally:
            releasing.cancel()
            await self._end()

    async def _end(self) -> None:
        try:
            await self.queue.stop(timeout=0)
        except Exception as error:  # noqa: BLE001 - anything that ends the worker is a finding
            self.violations.append(f"the worker died: {error!r}")

    async def _release_some(self) -> None:
        """Deliver half of the slow replies late, and the others never."""
        while True:
            await self.server.wait_until_held()
            if self.rng.random() < 0.5:
                self.server.release()
            await self.provider.wait_asked()

    async def _write(self, number: int) -> None:
        mine: list[str] = []
        while self.saved < self.texts and not self._is_dead:
            for _ in range(self.rng.randint(1, 3)):
                await self._act(mine)
            if self.rng.random() < 0.2:
                await self._check_now()
            await self._asked_or_dead()

    @property
    def _is_dead(self) -> bool:
        return self.queue.task is None or self.queue.task.done()

    async def _asked_or_dead(self) -> None:
        assert self.queue.task is not None
        asked = asyncio.create_task(self.provider.wait_asked())
        await asyncio.wait({asked, self.queue.task}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()

    async def _act(self, mine: list[str]) -> None:
        chance = self.rng.random()
        if not mine or chance < 0.6:
            mine.append(await self._save())
        elif chance < 0.85:
            await self.stores.edit(self.rng.choice(mine), {"content": self._text(self.edited + 5_000)})
            self.edited += 1
        else:
            await self.stores.delete(mine.pop(self.rng.randrange(len(mine))))
            self.forgotten += 1

    async def _save(self) -> str:
        text = self._text(self.saved)
        self.saved += 1
        result = await self.stores.save_fields("observation", {"content": text}, SaveContext(session="s"))
        jobs = [job.id for job in result.jobs]
        self.waiting.append(asyncio.create_task(self.queue.wait_settled(jobs, WAIT_MS / 1_000)))
        return result.id

    def _text(self, number: int) -> str:
        poison = f"poison{self.rng.randrange(len(POISONS))} " if self.rng.random() < 0.04 else ""
        return f"{poison}number {number} " + " ".join(self.rng.choices(["red", "blue", "boat", "pear"], k=3))

    async def _recover(self) -> None:
        """Save good texts while jobs are pending: poison alone does not show that the provider works."""
        number = 10_000
        while (await self.storage.jobs.depth()).pending and not self._is_dead:
            number += 1
            await self.stores.save_fields(
                "observation", {"content": f"number {number} works"}, SaveContext(session="s")
            )
            self.queue.recheck_table()
            await self._asked_or_dead()
            await self.queue.idle()

    async def _check_now(self) -> None:
        wrong = await self.judge.wrong(await look(self.storage, self._space))
        self.violations += [f"after {self.saved} saves: {problem}" for problem in wrong]
        await self._check_buried()

    async def _check_buried(self) -> None:
        """Check that each buried text is poison, or was alone in a request refused for its text."""
        alone = {_alone(seen.payload) for seen in self.server.requests if seen.fault in _BLAMING_KINDS}
        failed = Counter(_alone(seen.payload) for seen in self.server.requests if seen.fault)
        for job, reason, text in await self.storage.db.readers.run(_buried):
            if "poison" not in text:
                self.blamed.add(job)
                blames = text in alone and _BLAMES_A_TEXT.search(reason)
                if not blames and failed[text] < MOST_TRIES:
                    self.violations.append(f"buried without need: {text!r}: {reason}")
            elif not reason:
                self.violations.append(f"buried without a reason: {text!r}")

    async def _check_the_end(self) -> None:
        """Check that only poison is buried; if another fault preceded its own, it may have been embedded."""
        holding = await look(self.storage, self._space)
        buried = set((await self.storage.db.readers.run(_buried_chunks)).values())
        self.violations += await self.judge.wrong(holding, missing=buried)
        self.violations += [
            f"the end: buried without need: {holding.texts[chunk]!r}"
            for chunk in sorted(buried)
            if "poison" not in holding.texts[chunk]
        ]
        self.buried = len(buried)
        census = await self.storage.upkeep.census()
        if census.violations:
            self.violations.append(f"the end: {census}")
        self.violations += await unfound_in(self.storage)
        if any(seen.provider == "elsewhere" for seen in self.server.requests):
            self.violations.append("a redirect was followed")

    def _count_faults(self) -> None:
        self.happened = Counter(seen.fault for seen in self.server.requests if seen.fault)

    @property
    def _space(self) -> int:
        found = self.builder._space
        assert found is not None
        return found.id


class FaultsSuite:
    name = "provider_faults"
    unit = "texts"
    ci_n = 200
    torture_n = 10_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        load = _loaded(seed, folder, n, scripted(random.Random(f"faults {seed}")))
        figures: dict[str, float | str] = {
            "edited": load.edited,
            "forgotten": load.forgotten,
            "faults": load.happened.total(),
            "kinds of faults": float(len(load.happened)),
            "poisoned texts buried": load.buried,
            "other texts failed alone by chance": len(load.blamed),
        }
        return Outcome(load.saved, tuple(load.violations), figures)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        def search(name: str, place: Path) -> Outcome:
            mutate, fault = _MUTANTS[name]
            with mutate():
                load = _loaded(seed, place, 50, [fault, *POISONS], deadline_s=10.0)
            return Outcome(load.saved, tuple(load.violations))

        return all_noticed(_MUTANTS, folder, search)


def _loaded(
    seed: int, folder: Path, texts: int, faults: Sequence[HttpFault], *, deadline_s: float = DEADLINE_S
) -> Load:
    async def live() -> Load:
        storage = await SqliteStorage.open(folder / DATABASE_NAME)
        async with running(dimension=DIMENSION, key=KEY) as server:
            provider = create_provider(_settings(server))
            assert provider is not None
            noticed = NoticedProvider(provider)
            load = Load(random.Random(seed), storage, server, noticed, texts, faults, deadline_s)
            try:
                await load.run()
            finally:
                await provider.aclose()
                await storage.close()
        return load

    # The clock of the queue is faster than a connection.
    with (
        capture_logs(),
        patch.object(call, "CANARY_S", HTTP_TIMEOUT_S * FASTER * 2),
        patch.object(diagnosis, "SLOW_MS", 10**9),
    ):
        return asyncio.run(live())


def _settings(server: FakeProviderServer) -> EmbeddingSettings:
    return EmbeddingSettings.model_validate(
        {
            "provider": "openai",
            "model": MODEL,
            "dimensions": DIMENSION,
            "base_url": server.base_url("openai"),
            "api_key": KEY,
            "queue": {"call_timeout_s": HTTP_TIMEOUT_S},
        }
    )


def _alone(payload: object) -> str | None:
    texts = payload.get("input") if isinstance(payload, dict) else None
    return texts[0] if isinstance(texts, list) and len(texts) == 1 else None


def _buried_chunks(connection: Connection) -> dict[int, int]:
    return dict(connection.execute("SELECT id, chunk FROM jobs WHERE state = 'buried'"))


def _buried(connection: Connection) -> list[tuple[int, str, str]]:
    """Return job, reason and embedded text of what is buried; every text here is one chunk."""
    return connection.execute(
        """SELECT jobs.id, jobs.last_error, entries.header || char(10) || entries.content FROM jobs
           JOIN chunks ON chunks.id = jobs.chunk JOIN entries ON entries.seq = chunks.entry
           WHERE jobs.state = 'buried'"""
    ).fetchall()


_MUTANTS: dict[str, tuple[Mutate, HttpFault]] = {
    "a transient fault buries": (MUTANTS["a transient fault buries"], HttpFault.with_status(503, times=20)),
    "poison takes its batch along": (
        MUTANTS["poison takes its batch along"],
        HttpFault(kind="nan", times=10),
    ),
    "the indexes of a reply are not looked at": (
        lambda: patch.object(wire_format, "by_index", list),
        HttpFault(kind="wrong_order"),
    ),
}

SUITE = FaultsSuite()
