"""Saves while the embedding provider rejects all requests, compared with saves while it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx

from agentctx.client.async_client import AsyncClient
from benchmarks.daemons import daemon_folder, drained, started
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import interleaved_ms, median, percentile
from benchmarks.vendor import fake_vendor

TEXT_CHARACTERS = 500
MOST_TIMES_HEALTHY = 1.5
_REFUSES = {"faults": [{"kind": "status", "status": 503}]}
_ANSWERS: dict[str, list[object]] = {"faults": []}


async def measure(options: Options) -> list[Figure]:
    """Let one client save to two daemons in turns; the vendor of one is down the whole time."""
    rounds = options.size(10_000, 300)
    with (
        fake_vendor() as healthy,
        fake_vendor() as down,
        daemon_folder("openai", address=f"{healthy}/openai/v1") as one,
        daemon_folder("openai", address=f"{down}/openai/v1") as other,
    ):
        async with started(one) as client, started(other) as cut_off:
            await _script(down, _REFUSES)
            usual, during = await interleaved_ms((_saves(client), _saves(cut_off)), rounds=rounds)
            pending = (await cut_off.queue()).pending
            await _script(down, _ANSWERS)
            await drained(cut_off)
            buried = (await cut_off.queue()).buried
    return _figures(usual, during, pending, buried)


async def _script(vendor: str, script: object) -> None:
    async with httpx.AsyncClient(base_url=vendor, trust_env=False) as client:
        (await client.post("/__script", json=script)).raise_for_status()


def _saves(client: AsyncClient) -> Callable[[], Awaitable[object]]:
    texts = TextSource(seed=1)

    async def save() -> object:
        return await client.save_observation("bench", texts.text(TEXT_CHARACTERS))

    return save


def _figures(healthy: list[float], during: list[float], pending: int, buried: int) -> list[Figure]:
    usual, bar = percentile(healthy, 99), f"{MOST_TIMES_HEALTHY:g} x healthy"
    return [
        Figure(
            name=f"save during an outage, {len(during)} saves, p99",
            value=percentile(during, 99),
            unit="ms",
            baseline=usual,
            bar=at_most(MOST_TIMES_HEALTHY * usual, bar),
        ),
        Figure(name="save during an outage, p50", value=median(during), unit="ms", baseline=median(healthy)),
        Figure(
            name="embeddings pending at its end",
            value=pending,
            unit="texts",
            bar=at_least(len(during), "one for each save"),
        ),
        Figure(name="of them buried afterwards", value=buried, unit="texts", bar=at_most(0, "none")),
    ]
