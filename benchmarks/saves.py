"""The latency of an acknowledged save, compared with the unavoidable: a commit and a round trip."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path

from agentctx.client.async_client import AsyncClient
from agentctx.client.async_transport import AsyncUnixTransport
from agentctx.storage.file.driver import Connection, open_connection
from benchmarks.daemons import daemon_folder, started
from benchmarks.figures import Figure, at_most
from benchmarks.options import Options
from benchmarks.raw_framing import raw_server
from benchmarks.texts import TextSource
from benchmarks.timing import interleaved_ms, median, percentile

TEXT_CHARACTERS = 500
MOST_TIMES_BARE = 3.4
_TIMEOUT_S = 30.0


async def measure(options: Options) -> list[Figure]:
    """One client saves to a daemon that only stores, and to one that also embeds."""
    rounds = options.size(1_000, 200)
    return [
        *await _saves("none", rounds, "save", judged=True),
        *await _saves("embedded", rounds, "save while embedding", judged=False),
    ]


async def _saves(provider: str, rounds: int, name: str, *, judged: bool) -> list[Figure]:
    with daemon_folder(provider) as folder, raw_server(folder / "raw.sock", "http") as raw:
        async with started(folder) as client:
            with closing(open_connection(folder / "bare.db")) as bare:
                bare.execute("CREATE TABLE entries (id INTEGER PRIMARY KEY, content TEXT NOT NULL)")
                times = await _times(client, bare, raw, rounds)
    return _figures(name, *times, judged=judged)


async def _times(client: AsyncClient, bare: Connection, raw: Path, rounds: int) -> list[list[float]]:
    texts = TextSource(seed=1)
    transports = [AsyncUnixTransport(socket, _TIMEOUT_S) for socket in (raw, client.socket)]

    async def save() -> object:
        return await client.save_observation("bench", texts.text(TEXT_CHARACTERS))

    async def insert() -> object:
        # Outside BEGIN a statement is a transaction: this returns once the text is on disk.
        return bare.execute("INSERT INTO entries (content) VALUES (?)", (texts.text(TEXT_CHARACTERS),))

    posts = [partial(transport.request, "POST", "/healthz", b"", {}) for transport in transports]
    try:
        return await interleaved_ms((save, insert, *posts), rounds=rounds)
    finally:
        for transport in transports:
            await transport.close()


def _figures(
    name: str,
    saves: list[float],
    inserts: list[float],
    raw_posts: list[float],
    posts: list[float],
    *,
    judged: bool,
) -> list[Figure]:
    bare = median(inserts) + median(raw_posts)
    bar = at_most(MOST_TIMES_BARE * bare, f"{MOST_TIMES_BARE} x (insert + raw post)")
    return [
        Figure(
            name=f"{name}, p50",
            value=median(saves),
            unit="ms",
            baseline=bare,
            bar=bar if judged else None,
        ),
        Figure(name=f"{name}, p95", value=percentile(saves, 95), unit="ms"),
        Figure(name=f"{name}: bare insert and commit, p50", value=median(inserts), unit="ms"),
        Figure(name=f"{name}: empty post to a raw server, p50", value=median(raw_posts), unit="ms"),
        Figure(name=f"{name}: empty post to the daemon, p50", value=median(posts), unit="ms"),
    ]
