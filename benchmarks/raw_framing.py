"""The minimum cost of a conversation over a Unix socket: a line of JSON each way, or empty HTTP requests.

`python -m benchmarks.raw_framing SOCKET [http]` is the server, on the same event loop as the daemon.
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
from typing import cast

QUESTION = b"{}\n"
_ANSWER = {"status": "ok"}
_EMPTY_REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def raw_server(path: Path, *more: str) -> Iterator[Path]:
    """Yield the socket of a server in another process that is already listening; `http` answers HTTP."""
    command = [sys.executable, "-m", "benchmarks.raw_framing", str(path), *more]
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


class _EmptyReplies(asyncio.Protocol):
    """Answers every request that has no body, without looking at it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(_EMPTY_REPLY * data.count(b"\r\n\r\n"))


async def _serve(path: str, *, http: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            json.loads(line)
            writer.write(json.dumps(_ANSWER).encode() + b"\n")
            await writer.drain()
        writer.close()

    if http:
        server = await asyncio.get_running_loop().create_unix_server(_EmptyReplies, path)
    else:
        server = await asyncio.start_unix_server(answer, path)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(sys.argv[1], http="http" in sys.argv[2:]))
