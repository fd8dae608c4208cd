"""The first byte of every page of `agentctx ui` beside empty requests, while another process saves."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from time import perf_counter
from urllib.parse import quote, urlsplit

import httpx

from agentctx.client.async_client import AsyncClient
from agentctx.client.http1 import ReplyParser
from agentctx_inspector.app import create_pages
from benchmarks.daemons import daemon_folder, database_in, started
from benchmarks.embedder import default_embedder
from benchmarks.figures import Figure, at_most
from benchmarks.filling import fill
from benchmarks.options import Options
from benchmarks.scale import copied, place_of
from benchmarks.texts import TextSource
from benchmarks.timing import interleaved_ms, median, percentile

MOST_EMPTY = 6
"""How many empty requests of the same run the first byte of a page may take."""
EDITS = 5
RECEIPTS = 50
_ASKING = frozenset({"/", "/calls/ask"})
"""Pages that also answer a question."""
_STREAM = "/live"
"""A stream that never ends, so it is not measured."""
_ENDLESS = 10_000_000
_POLL_S = 0.05


class Reader:
    """Reads replies on one connection: the first byte of the body, and later the rest."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: str) -> None:
        self.whole_ms: dict[str, list[float]] = defaultdict(list)
        """How long all of each reply took."""
        self._reader = reader
        self._writer = writer
        self._headers = headers
        self._asked = "", 0.0
        self._seen = b""

    async def first_byte(self, path: str) -> None:
        self._asked = path, perf_counter()
        self._writer.write(f"GET {path} HTTP/1.1\r\n{self._headers}\r\n\r\n".encode())
        self._seen = await self._reader.readuntil(b"\r\n\r\n") + await self._reader.readexactly(1)

    async def rest(self) -> None:
        """Read the reply to its end, if one was begun."""
        if not self._seen:
            return
        parser, (path, began) = ReplyParser(), self._asked
        while (reply := parser.feed(self._seen)) is None:
            self._seen = await self._reader.read(65_536)
        self._seen = b""
        self.whole_ms[path].append((perf_counter() - began) * 1_000)
        if reply.status != HTTPStatus.OK:
            raise RuntimeError(f"{path} was not shown: {reply}")

    def close(self) -> None:
        self._writer.close()


async def measure(options: Options) -> list[Figure]:
    entries = options.size(100_000, 5_000)
    with daemon_folder() as folder:
        async with default_embedder() as provider:
            vectors = await fill(database_in(folder), provider, TextSource(seed=8), entries, place_of)
        async with started(folder) as client:
            await copied(client, *vectors.shape)
            addresses = await _addresses(client)
            async with _browser(client) as browser, _daemon(client) as daemon:
                return await _measured(client, browser, daemon, addresses, options.size(200, 40))


async def _addresses(client: AsyncClient) -> dict[str, str]:
    """Return an address of each page by its path, and of those that ask with a question."""
    texts = TextSource(seed=13)
    text = texts.text(2_000)
    saved = await client.save_knowledge("rule", text)
    for _ in range(EDITS):
        await client.edit(saved.id, content=f"{text} {texts.question()}")
    receipts = [await client.context(texts.question(), position="tail") for _ in range(RECEIPTS)]
    named = {"entry_id": saved.id, "injection_id": receipts[-1].injection_id}
    found = {path: path.format_map(named) for path in create_pages(_unasked).paths if path != _STREAM}
    asking = {f"{path}?q=…": f"{path}?q={quote(texts.question())}" for path in found if path in _ASKING}
    return found | asking


async def _unasked(*_: object) -> None:
    """Serve nothing: only the paths are read."""


@asynccontextmanager
async def _browser(client: AsyncClient) -> AsyncIterator[Reader]:
    """Yield a connection to the pages, with a session."""
    url = (await client.open_page()).url
    async with httpx.AsyncClient(trust_env=False) as opening:
        cookie = (await opening.get(url)).headers["set-cookie"].partition(";")[0]
    link = urlsplit(url)
    stream = await asyncio.open_connection(link.hostname, link.port)
    browser = Reader(*stream, f"host: {link.netloc}\r\ncookie: {cookie}")
    yield browser
    browser.close()


@asynccontextmanager
async def _daemon(client: AsyncClient) -> AsyncIterator[Reader]:
    daemon = Reader(*await asyncio.open_unix_connection(client.socket), "host: agentctx")
    yield daemon
    daemon.close()


@asynccontextmanager
async def _saving(client: AsyncClient) -> AsyncIterator[None]:
    """Save in another process, as fast as one `save_all` can."""
    command = (sys.executable, "-m", "benchmarks.saver", str(client.socket), str(_ENDLESS))
    saver = await asyncio.create_subprocess_exec(*command)
    try:
        before = await _saved(client)
        while await _saved(client) == before:  # noqa: ASYNC110 - the saves of another process
            await asyncio.sleep(_POLL_S)
        yield
        if saver.returncode is not None:
            raise RuntimeError("the saves ended before the pages were read")
        saver.kill()
    finally:
        await saver.wait()


async def _saved(client: AsyncClient) -> int:
    return (await client.status()).activity.saved


async def _measured(
    client: AsyncClient, browser: Reader, daemon: Reader, addresses: Mapping[str, str], rounds: int
) -> list[Figure]:
    async def settle() -> None:
        await daemon.rest()
        await browser.rest()

    pages = [partial(browser.first_byte, each) for each in addresses.values()]
    actions = [partial(daemon.first_byte, "/healthz"), *pages]
    async with _saving(client):
        before, began = await _saved(client), perf_counter()
        empty, *firsts = await interleaved_ms(actions, rounds=rounds, settle=settle)
        rate = (await _saved(client) - before) / (perf_counter() - began)
    return [
        Figure(name="saves beside it", value=rate, unit="entries/s"),
        Figure(name="empty request, p50", value=median(empty), unit="ms"),
        Figure(name="empty request, p95", value=percentile(empty, 95), unit="ms"),
        *(
            figure
            for (name, address), times in zip(addresses.items(), firsts, strict=True)
            for figure in figures_of(name, times, browser.whole_ms[address], median(empty))
        ),
    ]


def figures_of(page: str, firsts: Sequence[float], wholes: Sequence[float], empty: float) -> list[Figure]:
    """Return the figures of one page; its first byte is judged."""
    bar = at_most(MOST_EMPTY * empty, f"{MOST_EMPTY} x empty request")
    return [
        Figure(name=f"{page}: first byte, p50", value=median(firsts), unit="ms", baseline=empty, bar=bar),
        Figure(name=f"{page}: all of it, p50", value=median(wholes), unit="ms", baseline=empty),
    ]
