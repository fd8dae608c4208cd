"""The latency of an acknowledged save, compared with the unavoidable parts: the commit and the round trip."""

from __future__ import annotations

from contextlib import closing

from agentctx.client.async_client import AsyncClient
from agentctx.client.async_transport import AsyncUnixTransport
from agentctx.storage.file.driver import Connection, open_connection
from benchmarks.daemons import daemon_folder, started
from benchmarks.figures import Figure, at_most
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import interleaved_ms, median, percentile

TEXT_CHARACTERS = 500
MOST_TIMES_BARE = 2.3
_TIMEOUT_S = 30.0


async def measure(options: Options) -> list[Figure]:
    """One client saves to a daemon that only stores, and to one that also embeds."""
    rounds = options.size(1_000, 200)
    return [
        *await _saves("none", rounds, "save", judged=True),
        *await _saves("embedded", rounds, "save while embedding", judged=False),
    ]


async def _saves(provider: str, rounds: int, name: str, *, judged: bool) -> list[Figure]:
    with daemon_folder(provider) as folder:
        async with started(folder) as client:
            with closing(open_connection(folder / "bare.db")) as bare:
                bare.execute("CREATE TABLE entries (id INTEGER PRIMARY KEY, content TEXT NOT NULL)")
                times = await _times(client, bare, rounds)
    return _figures(name, *times, judged=judged)


async def _times(client: AsyncClient, bare: Connection, rounds: int) -> list[list[float]]:
    texts = TextSource(seed=1)
    transport = AsyncUnixTransport(client.socket, _TIMEOUT_S)

    async def save() -> object:
        return await client.save_observation("bench", texts.text(TEXT_CHARACTERS))

    async def insert() -> object:
        # Outside BEGIN a statement is a transaction: this returns once the text is on disk.
        return bare.execute("INSERT INTO entries (content) VALUES (?)", (texts.text(TEXT_CHARACTERS),))

    async def post() -> object:
        return await transport.request("POST", "/healthz", b"", {})

    try:
        return await interleaved_ms((save, insert, post), rounds=rounds)
    finally:
        await transport.close()


def _figures(
    name: str, saves: list[float], inserts: list[float], posts: list[float], *, judged: bool
) -> list[Figure]:
    bare = median(inserts) + median(posts)
    bar = at_most(MOST_TIMES_BARE * bare, f"{MOST_TIMES_BARE} x (insert + post)")
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
        Figure(name=f"{name}: empty post, p50", value=median(posts), unit="ms"),
    ]
