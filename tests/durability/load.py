"""Hundreds of concurrent clients next to misbehaving connections: each is served or closed."""

from __future__ import annotations

import asyncio
import os
import random
import string
from dataclasses import dataclass, field
from pathlib import Path

from agentctx import AsyncClient
from agentctx.errors import AgentctxError
from benchmarks.greed import POLITE, Cost, cost_of_greed
from tests.durability.forked_daemon import DaemonEnded, ForkedDaemon
from tests.durability.inspection import inspect
from tests.durability.ledger import Ledger
from tests.durability.suite import Outcome

AT_ONCE = 500
ROUNDS = 2
CLOSED_WITHIN_S = 10.0
BAD_CONNECTIONS = 20
"""Number of misbehaving connections of each kind."""
CONFIG = '[embedding]\nprovider = "fake"\n[server]\nheader_timeout_s = 3.0\nbody_timeout_s = 3.0\n'
_POST = b"POST /v1/search HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
BAD_BEGINNINGS = {"silent": b"G", "half a head": b"GET /healthz HTTP/1.1\r\nHo", "half a body": _POST + b"{"}


@dataclass
class Crowd:
    """The clients of one run."""

    daemon: ForkedDaemon
    rng: random.Random
    ledger: Ledger = field(default_factory=Ledger)
    violations: list[str] = field(default_factory=list)
    requests: int = 0
    cut: int = 0

    async def come(self, clients: int) -> None:
        """Run `n` clients, `AT_ONCE` at a time, while misbehaving neighbours keep connections open."""
        bad = [
            asyncio.create_task(self._misbehave(kind))
            for kind in BAD_BEGINNINGS
            for _ in range(BAD_CONNECTIONS)
        ]
        bad += [asyncio.create_task(self._half_close()) for _ in range(BAD_CONNECTIONS)]
        for first in range(0, clients, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, clients))
            await asyncio.gather(*(self._one(number) for number in numbers))
        await asyncio.gather(*bad)

    async def _one(self, number: int) -> None:
        try:
            async with AsyncClient(self.daemon.socket, timeout_s=60.0, start_timeout_s=30.0) as client:
                for turn in range(ROUNDS):
                    await self._turn(client, f"client {number} says {turn}", self._word())
        except AgentctxError as error:
            self.violations.append(f"client {number}: {type(error).__name__}: {error.message}")

    def _word(self) -> str:
        """Return a unique word, which ranks a text without a vector above texts that are only similar."""
        return "".join(self.rng.choices(string.ascii_lowercase, k=12))

    async def _turn(self, client: AsyncClient, said: str, word: str) -> None:
        text = f"{said} {word}"
        saved = await client.save_observation("s", text)
        self.ledger.created(saved.id, saved.version, text)
        found = await client.search(word, limit=3)
        if text not in {hit.content for hit in found.results}:
            self.violations.append(f"not found right after its save: {text!r}")
        await client.get(saved.id)
        self.requests += 3

    async def _misbehave(self, kind: str) -> None:
        reader, writer = await asyncio.open_unix_connection(os.fspath(self.daemon.socket))
        writer.write(BAD_BEGINNINGS[kind])
        await self._is_cut(kind, reader)
        writer.close()

    async def _half_close(self) -> None:
        reader, writer = await asyncio.open_unix_connection(os.fspath(self.daemon.socket))
        writer.write(_POST)
        writer.write_eof()
        await self._is_cut("half-closed", reader)
        writer.close()

    async def _is_cut(self, kind: str, reader: asyncio.StreamReader) -> None:
        try:
            async with asyncio.timeout(CLOSED_WITHIN_S):
                await reader.read()
        except TimeoutError:
            self.violations.append(f"{kind}: not closed within {CLOSED_WITHIN_S:g} s")
        except ConnectionError:
            pass
        self.cut += 1


class LoadSuite:
    name = "load"
    unit = "clients"
    ci_n = AT_ONCE
    torture_n = 100_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        return _run(n, seed, folder, broken="")

    def control(self, *, seed: int, folder: Path) -> Outcome:
        return _run(100, seed, folder, broken="fail in company")


def _run(n: int, seed: int, folder: Path, *, broken: str) -> Outcome:
    daemon = ForkedDaemon(folder)
    crowd = Crowd(daemon, random.Random(seed))
    try:
        daemon.start(CONFIG, broken=broken)
        asyncio.run(crowd.come(n))
        greed = {} if broken else _greed_figures(cost_of_greed(daemon.socket))
        daemon.stop()
    except DaemonEnded as error:
        return Outcome(0, (f"it does not start: {error}",))
    finally:
        daemon.end()
    found = inspect(daemon.data_dir)
    problems = [*crowd.violations, *_logged(daemon), *found.violations([crowd.ledger])]
    figures: dict[str, float | str] = {"requests": crowd.requests, "bad connections cut": crowd.cut, **greed}
    return Outcome(n, tuple(problems), figures)


def _greed_figures(cost: Cost) -> dict[str, str]:
    return {
        f"p99 ms of {POLITE} polite clients": f"{cost.alone_ms:.0f}",
        "beside a greedy one": f"{cost.contended_ms:.0f}",
        "ratio": f"{cost.ratio:.1f}",
    }


def _logged(daemon: ForkedDaemon) -> list[str]:
    """Return what the daemon's log reports as wrong."""
    return [f"log: {line}" for line in daemon.log if line.get("level") in {"error", "critical"}]


SUITE = LoadSuite()
