"""How soon a revoked source, and everything derived from it, disappears from answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter

from agentctx.client.async_client import AsyncClient
from agentctx.errors import AgentctxError
from agentctx.wire import SaveRequest
from benchmarks.daemons import running
from benchmarks.figures import Figure, at_most
from benchmarks.options import Options
from benchmarks.texts import TextSource

MOST_MS = 1_000
BAD, GOOD = "bad", "good"
WORD = "quinquagesima"
"""Part of every text of the source and of every text derived from it, and of no other."""
_TEXT_CHARACTERS = 300
_A_DERIVED = 10
"""Entries of the source per derived entry."""


async def measure(options: Options) -> list[Figure]:
    count = options.size(50_000, 1_000)
    texts = TextSource(seed=12)
    async with running("none") as client:
        source = await _saved(client, _requests(texts, BAD, count, WORD))
        await _saved(client, _requests(texts, GOOD, count))
        await _saved(client, _derived(texts, source))
        before = len((await client.search(WORD)).results)
        started = perf_counter()
        revoked = await client.revoke(session=BAD)
        after = len((await client.search(WORD)).results)
        elapsed_ms = (perf_counter() - started) * 1_000
    return [
        Figure(
            name=f"revoked {revoked.entries} and {revoked.derived} derived from them, until the next answer",
            value=elapsed_ms,
            unit="ms",
            bar=at_most(MOST_MS, f"{MOST_MS} ms"),
        ),
        Figure(
            name="hits of revoked entries afterwards",
            value=after,
            unit=f"of {before}",
            bar=at_most(0, "none"),
        ),
    ]


def _requests(texts: TextSource, session: str, count: int, word: str = "") -> Iterator[SaveRequest]:
    for _ in range(count):
        content = f"{texts.text(_TEXT_CHARACTERS)} {word}"
        yield SaveRequest(collection="observation", session=session, content=content)


def _derived(texts: TextSource, source: list[str]) -> Iterator[SaveRequest]:
    for entry in source[::_A_DERIVED]:
        [request] = _requests(texts, GOOD, 1, WORD)
        yield replace(request, derived_from=[entry])


async def _saved(client: AsyncClient, requests: Iterator[SaveRequest]) -> list[str]:
    """Return the ids. Raises the error of a failed save."""
    ids = []
    async for outcome in client.save_all(requests):
        if isinstance(outcome, AgentctxError):
            raise outcome
        ids.append(outcome.id)
    return ids
