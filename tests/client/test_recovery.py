"""How both clients deal with a daemon that is starting, stopping or missing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from inspect import isawaitable, iscoroutinefunction
from pathlib import Path
from typing import Any, Self

import pytest

from agentctx.client.async_client import AsyncClient
from agentctx.client.async_transport import AsyncUnixTransport
from agentctx.client.sync_client import Client
from agentctx.client.transport import ConnectionDropped, NotListening
from agentctx.client.unix_transport import UnixTransport
from agentctx.errors import AgentctxError, DeadlineExceeded, Unavailable
from tests.client.stub_daemon import ID, StubDaemon, queue_reply, save_result

KINDS: list[Any] = [(Client, UnixTransport), (AsyncClient, AsyncUnixTransport)]
STOPPING = (503, {"error": {"code": "unavailable", "message": "stopping", "hint": ""}})
LONG_S = 60.0

Make = Callable[..., Any]


async def resolve(value: Any) -> Any:
    return await value if isawaitable(value) else value


class WatchedTransport:
    """A transport that reports every failure before raising it."""

    def __init__(self, inner: Any, on_failure: Callable[[AgentctxError], object]) -> None:
        self._inner = inner
        self._on_failure = on_failure
        self.request = self._request_async if iscoroutinefunction(inner.request) else self._request
        self.close = inner.close

    def _request(self, *args: Any) -> Any:
        try:
            return self._inner.request(*args)
        except AgentctxError as error:
            self._on_failure(error)
            raise

    async def _request_async(self, *args: Any) -> Any:
        try:
            return await self._inner.request(*args)
        except AgentctxError as error:
            self._on_failure(error)
            raise


@pytest.fixture(params=KINDS)
async def make(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Make]:
    """Create clients for the socket `s` in the test's folder; `on_failure` is called with each error."""
    kind, transport = request.param
    async with AsyncExitStack() as stack:

        def client(on_failure: Callable[[AgentctxError], object] = id, **options: Any) -> Any:
            made = kind(
                tmp_path / "s", transport=WatchedTransport(transport(tmp_path / "s"), on_failure), **options
            )
            stack.push_async_callback(lambda: resolve(made.close()))
            return made

        yield client


@pytest.fixture
def stub(tmp_path: Path) -> StubDaemon:
    """A daemon that is not running yet."""
    stub = StubDaemon(tmp_path / "s")
    stub.answer("GET", "/v1/queue", (200, queue_reply()))
    stub.answer("DELETE", f"/v1/entries/{ID}", (200, {"id": ID, "versions": 1}))
    return stub


async def test_a_call_waits_for_the_daemon_to_start(make: Make, stub: StubDaemon) -> None:
    failures: list[AgentctxError] = []
    async with AsyncExitStack() as stack:

        def start_after_three(error: AgentctxError) -> None:
            failures.append(error)
            if len(failures) == 3:
                stack.enter_context(stub.running())

        client = make(start_after_three, start_timeout_s=LONG_S)

        # Nothing was sent, so this may be any call, even one that is not idempotent.
        assert (await resolve(client.forget(ID))).id == ID

    assert [type(error) for error in failures] == [NotListening] * 3
    assert len(stub.seen) == 1


async def test_waiting_for_a_daemon_that_does_not_start_ends(make: Make) -> None:
    failures: list[AgentctxError] = []
    client = make(failures.append, start_timeout_s=0.02)

    with pytest.raises(NotListening, match="does not exist"):
        await resolve(client.queue())
    assert len(failures) > 1


@pytest.mark.parametrize(("name", "options"), [("queue", {"start_timeout_s": 0}), ("ready", {})])
async def test_without_a_start_timeout_a_call_fails_immediately(
    make: Make, name: str, options: dict[str, Any]
) -> None:
    failures: list[AgentctxError] = []
    client = make(failures.append, **options)

    with pytest.raises(NotListening):
        await resolve(getattr(client, name)())
    assert len(failures) == 1


async def test_a_restart_between_two_calls_goes_unnoticed(make: Make, stub: StubDaemon) -> None:
    failures: list[AgentctxError] = []
    client = make(failures.append)
    with stub.running():
        await resolve(client.forget(ID))
    with stub.running():
        await resolve(client.forget(ID))

    assert not failures
    assert len(stub.seen) == 2


async def test_a_save_survives_a_restart_with_the_same_key(make: Make, stub: StubDaemon) -> None:
    async with AsyncExitStack() as stack:
        first = stack.enter_context(RestartableStub(stub))
        stub.answer("POST", "/v1/entries", (201, save_result()))
        stub.dropping = 1

        def restart(error: AgentctxError) -> None:
            if isinstance(error, ConnectionDropped):
                first.stop()
            elif isinstance(error, NotListening):
                first.start()

        client = make(restart, start_timeout_s=LONG_S)

        assert await resolve(client.save("knowledge", "text", key="k")) == save_result()

    lost, repeated = stub.seen
    assert lost.headers["idempotency-key"] == repeated.headers["idempotency-key"]


class RestartableStub:
    """A stub that the test starts and stops."""

    def __init__(self, stub: StubDaemon) -> None:
        self._stub = stub
        self._running: Any = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        self._running = self._stub.running()
        self._running.__enter__()

    def stop(self) -> None:
        if self._running is not None:
            self._running.__exit__(None, None, None)
            self._running = None


async def test_a_repeatable_call_is_retried_while_the_daemon_starts_or_stops(
    make: Make, stub: StubDaemon
) -> None:
    stub.answer("GET", "/v1/queue", STOPPING, STOPPING, (200, queue_reply()))
    with stub.running():
        assert await resolve(make().queue()) == queue_reply()
    assert len(stub.seen) == 3


async def test_a_call_that_is_not_repeatable_fails_while_the_daemon_stops(
    make: Make, stub: StubDaemon
) -> None:
    stub.answer("DELETE", f"/v1/entries/{ID}", STOPPING)
    with stub.running(), pytest.raises(Unavailable):
        await resolve(make().forget(ID))
    assert len(stub.seen) == 1


async def test_alive_returns_false_instead_of_raising(make: Make, stub: StubDaemon) -> None:
    client = make()
    assert await resolve(client.alive()) is False

    stub.answer("GET", "/healthz", (200, {}))
    with stub.running():
        assert await resolve(client.alive()) is True
        stub.silent.clear()
        assert await resolve(client.within(0.05).alive()) is False


async def test_a_single_call_can_have_its_own_timeout(make: Make, stub: StubDaemon) -> None:
    client = make(timeout_s=LONG_S)
    with stub.running():
        assert await resolve(client.queue()) == queue_reply()
        stub.silent.clear()
        with pytest.raises(DeadlineExceeded, match=r"0\.05 s"):
            await resolve(client.within(0.05).queue())
        stub.silent.set()
        assert await resolve(client.queue()) == queue_reply()


async def test_a_requested_wait_is_added_to_the_timeout(make: Make, stub: StubDaemon) -> None:
    stub.answer("POST", "/v1/queue/drain", (200, queue_reply()))
    stub.silent.clear()
    client = make(timeout_s=0.02)
    with stub.running(), pytest.raises(DeadlineExceeded, match=r"0\.07 s"):
        await resolve(client.drain(0.05))
