"""A relay to a PostgreSQL server that counts round trips: replies that end with ReadyForQuery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

SOCKET: Final = ".s.PGSQL.5432"
_HEADER: Final = 5
_READY: Final = b"Z"
REPETITIONS: Final = 5


class CountingRelay:
    """`round_trips` grows with each reply of the server; `folder` contains the relay's socket."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder = folder
        self.round_trips = 0
        self._server = server / SOCKET

    async def count_round_trips(self, act: Callable[[], Awaitable[object]]) -> int:
        """Return the smallest number of round trips that `act` needed.

        It runs several times: the first run prepares statements. The engine must have no background queries:
        if the server is slow, they can fall into every run.
        """
        counts = []
        for _ in range(REPETITIONS):
            before = self.round_trips
            await act()
            counts.append(self.round_trips - before)
        return min(counts)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(self._server)
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy(reader, to_server))
            both.create_task(self._forward_replies(from_server, writer))

    async def _forward_replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                header = await reader.readexactly(_HEADER)
                body = await reader.readexactly(int.from_bytes(header[1:]) - 4)
                self.round_trips += header[:1] == _READY
                writer.write(header + body)
        writer.close()


@asynccontextmanager
async def counting_relay(folder: Path, server: Path) -> AsyncIterator[CountingRelay]:
    relay = CountingRelay(folder, server)
    listening = await asyncio.start_unix_server(relay.serve, folder / SOCKET)
    yield relay
    listening.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while sent := await reader.read(65_536):
            writer.write(sent)
            await writer.drain()
    writer.close()
