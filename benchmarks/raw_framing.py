"""The minimum cost of a JSON conversation over a Unix socket: a line each way, one request in flight.

`python -m benchmarks.raw_framing SOCKET` is the server, on the same event loop as the daemon.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

QUESTION = b"{}\n"
_ANSWER = {"status": "ok"}
_START_TIMEOUT_S = 20


@contextmanager
def raw_server(path: Path) -> Iterator[Path]:
    """Yield the socket of a server in another process that is already listening."""
    command = [sys.executable, "-m", "benchmarks.raw_framing", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the server of raw framing ended instead of listening"
            yield path
        finally:
            process.terminate()


class RawCaller:
    """A client with a blocking socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rb")

    def ask(self) -> object:
        self._socket.sendall(QUESTION)
        return json.loads(self._lines.readline())

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


class AsyncRawCaller:
    """A client with asyncio streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self) -> object:
        self._writer.write(QUESTION)
        return json.loads(await self._reader.readline())


@asynccontextmanager
async def async_raw_caller(path: Path) -> AsyncIterator[AsyncRawCaller]:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        yield AsyncRawCaller(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


async def _serve(path: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            json.loads(line)
            writer.write(json.dumps(_ANSWER).encode() + b"\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, path)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(sys.argv[1]))
