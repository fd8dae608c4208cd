"""A real server on a real Unix socket in the test's loop, and a client that sends raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_type_hints

import httpx
from starlette.types import ASGIApp

from agentctx.config.schema import LimitSettings, ServerSettings, Settings
from agentctx.server.app import Application, create_app
from agentctx.server.http_server import HttpServer
from agentctx.server.routes import Services
from agentctx.service.access.control import AccessControl
from agentctx.service.audit import AuditTrail
from agentctx.service.audit_notes import AuditNote
from agentctx.service.base import Peer
from agentctx.service.guard import Guard
from agentctx.service.guard_rules import AccessContext
from agentctx.storage.quotas import Quotas
from agentctx.telemetry import NO_TELEMETRY, Telemetry
from tests.server.recording import RecordingService

TEST_TIMEOUT_S = 5.0
"""No test waits this long unless the server hangs."""


@dataclass(frozen=True)
class Running:
    path: Path
    service: RecordingService
    server: HttpServer
    http: httpx.AsyncClient

    async def exchange(self, *parts: bytes) -> bytes:
        """Send the parts on a new connection; return everything received until the server closed it."""
        async with self.connection() as (reader, writer):
            for part in parts:
                with contextlib.suppress(ConnectionError):
                    writer.write(part)
                    await writer.drain()
            return await read_to_end(reader)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_unix_connection(os.fspath(self.path))
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def is_healthy(self) -> bool:
        """Return whether another connection is still served."""
        return (await self.http.get("/healthz")).status_code == 200


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    received = b""
    async with asyncio.timeout(TEST_TIMEOUT_S):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                received += data
    return received


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Read one reply with a Content-Length."""
    async with asyncio.timeout(TEST_TIMEOUT_S):
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        return parse_reply(head + await reader.readexactly(int(lengths[0].split(b":")[1])))


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str:
        return str(self.body["error"]["code"])


def parse_reply(raw: bytes) -> Reply:
    head, _, body = raw.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Reply(int(status_line.split(" ")[1]), headers, json.loads(body))


_KINDS = get_type_hints(Services)
_DECLARED = {method.__name__: method for method in Services(**_KINDS).operations()}


class ForwardingService:
    """Stands for all services so that one app, which is slow to create, serves many tests."""

    def __init__(self, target: RecordingService | None = None) -> None:
        self.target = target or RecordingService()

    def __getattr__(self, name: str) -> Any:
        def forward(*args: Any, **given: Any) -> Any:
            return getattr(self.target, name)(*args, **given)

        if declared := _DECLARED.get(name):
            functools.update_wrapper(forward, declared)
            _, *parameters = inspect.signature(declared).parameters.values()
            vars(forward)["__signature__"] = inspect.Signature(parameters)
        return forward

    def services(self) -> Services:
        return Services(**dict.fromkeys(_KINDS, cast("Any", self)))


class NoTrail:
    """Records no call."""

    async def record(self, peer: Peer, note: AuditNote) -> None: ...


async def nothing(_: str) -> None:
    """No id names anything."""


def recorded_app(
    service: RecordingService | ForwardingService,
    settings: Settings | None = None,
    telemetry: Telemetry = NO_TELEMETRY,
    context: AccessContext | None = None,
    **options: Any,
) -> Application:
    """Return the application over a double. `context`: the grants; by default the daemon's own."""
    settings = settings or Settings()
    context = context or AccessContext(AccessControl(settings.access), nothing, nothing)
    guard = Guard(context, cast("AuditTrail", NoTrail()))
    service = service if isinstance(service, ForwardingService) else ForwardingService(service)
    return create_app(service.services(), guard, settings, telemetry, **options)


@functools.cache
def _app(limits: LimitSettings) -> tuple[Application, ForwardingService]:
    service = ForwardingService()
    return recorded_app(service, Settings(limits=limits)), service


@contextlib.asynccontextmanager
async def running(
    service: RecordingService | None = None,
    *,
    limits: LimitSettings | None = None,
    asgi: ASGIApp | None = None,
    quotas: Quotas | None = None,
    **server: Any,
) -> AsyncIterator[Running]:
    """Serve the app, or `asgi`; `server` are fields of `ServerSettings`."""
    service = service or RecordingService()
    app, forwarding = _app(limits or LimitSettings())
    forwarding.target = service
    settings = ServerSettings(**server)
    # A test's folder can have a longer path than a socket may.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.bind(os.fspath(path))
            sock.listen(64)
            sock.setblocking(False)
            http_server = HttpServer(asgi or app, [sock], settings, quotas)
            serving = asyncio.create_task(http_server.serve())
            await http_server.started.wait()
            transport = httpx.AsyncHTTPTransport(uds=os.fspath(path))
            try:
                async with httpx.AsyncClient(
                    transport=transport, base_url="http://agentctx", trust_env=False
                ) as http:
                    yield Running(path, service, http_server, http)
            finally:
                await http_server.stop()
                await serving
