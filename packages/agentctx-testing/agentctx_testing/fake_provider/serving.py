"""The server on a loopback port, in the caller's event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from agentctx.errors import InvalidInput, NotFound
from agentctx.times import wall_clock
from agentctx_testing.fake_provider.answers import FakeAnswer
from agentctx_testing.fake_provider.app import ALL_DIALECTS, FakeProviderApp
from agentctx_testing.fake_provider.delivery import TRANSPORT
from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.script import RecordedRequest, Script

_KEEP_ALIVE_S = 75


class FakeProviderServer:
    """Serves every provider on one port; `app.py` says how other processes control it.

    Args:
        host, port: address to listen on; port 0 picks a free one.
        dimension: length of every model's vectors; None uses the lengths of the real models.
        key: the only key that is accepted; None accepts any that is not empty.
        faults: faults to apply from the start.
        clock: milliseconds since the epoch, for dates in replies.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        dimension: int | None = None,
        key: str | None = None,
        faults: Sequence[HttpFault] = (),
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self._script = Script(faults)
        app = FakeProviderApp(self._script, dimension=dimension, key=key, clock=clock)
        self._config = uvicorn.Config(app.asgi, http=_Connection, lifespan="off", log_config=None, ws="none")
        self._config.timeout_keep_alive = _KEEP_ALIVE_S
        self._address = (host, port)
        self._state = ServerState()
        self._listening: asyncio.Server | None = None

    async def start(self) -> None:
        """Start to listen. Raises `InvalidInput` if the address is not available."""
        self._config.load()
        host, port = self._address
        try:
            self._listening = await asyncio.get_running_loop().create_server(self._connection, host, port)
        except (OSError, OverflowError) as error:
            hint = "Use another port, or 0 for any free one."
            raise InvalidInput(f"Cannot listen on {host} port {port}: {error}", hint=hint) from error
        self._address = (host, int(self._listening.sockets[0].getsockname()[1]))

    async def aclose(self) -> None:
        """Stop listening and abort every connection, including those with a held reply. Idempotent."""
        if self._listening is None:
            return
        self._listening.close()
        connections = [each for each in self._state.connections if isinstance(each, _Connection)]
        for connection in connections:
            connection.transport.abort()
        for connection in connections:
            await connection.lost.wait()
        while self._state.tasks:
            await asyncio.wait(self._state.tasks)
        self._listening = None

    @property
    def url(self) -> str:
        """The root URL, such as `http://127.0.0.1:PORT`."""
        host, port = self._address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def base_url(self, provider: str) -> str:
        """Return the base URL for a client of this provider. Raises `NotFound` for an unknown provider."""
        if provider not in ALL_DIALECTS:
            raise NotFound(
                f"Unknown fake provider {provider!r}.", hint=f"Use one of {', '.join(ALL_DIALECTS)}."
            )
        return self.url + ALL_DIALECTS[provider].base_path

    @property
    def requests(self) -> list[RecordedRequest]:
        """The last 1,000 requests received, oldest first."""
        return list(self._script.seen)

    def script(self, *faults: HttpFault) -> None:
        """Replace the faults, the first that matches a request being used; count requests from 1 again."""
        self._script.set(faults)

    def answer(self, *answers: FakeAnswer) -> None:
        """Replace the answers to chats, the first that matches being used; the default is an echo."""
        self._script.set_answers(answers)

    def reset(self) -> None:
        """Clear the faults, answers, recorded requests and stored conversations, and release slow replies."""
        self._script.reset()

    def release(self) -> int:
        """Release the slow replies that wait now and return their number."""
        return self._script.gate.release()

    async def wait_until_held(self, count: int = 1) -> None:
        """Wait until `count` slow replies are held."""
        await self._script.gate.wait_until_held(count)

    async def wait_until_aborted(self, count: int = 1) -> None:
        """Wait until the clients of `count` recorded requests have disconnected early."""
        await self._script.wait_until_aborted(count)

    def _connection(self) -> asyncio.Protocol:
        return _Connection(config=self._config, server_state=self._state, app_state={})


@contextlib.asynccontextmanager
async def running(**options: Any) -> AsyncIterator[FakeProviderServer]:
    """Run a server for the duration of the context. Takes the options of `FakeProviderServer`."""
    server = FakeProviderServer(**options)
    await server.start()
    try:
        yield server
    finally:
        await server.aclose()


class _Connection(HttpToolsProtocol):
    """uvicorn's protocol, with the transport added to each request: ASGI cannot express a TCP reset."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.lost = asyncio.Event()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][TRANSPORT] = self.transport

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()
