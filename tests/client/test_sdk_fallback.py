"""The vendors' real SDKs while no daemon listens: straight to a fake vendor, and only then."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agentctx.client import sdk
from agentctx.client.sdk import vendor_url
from agentctx.errors import InvalidInput
from agentctx_testing.fake_provider import serving
from agentctx_testing.fake_provider.serving import FakeProviderServer

USER: Any = [{"role": "user", "content": "When do we deploy?"}]
OURS: Any = {"session": "private", "agent": "ann", "namespace": ["user:ann", "default"]}
# The HTTP library of the SDKs leaves a socket to the garbage collector if it cannot connect it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)
Ask = Callable[[], Any]


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
async def vendor() -> AsyncIterator[FakeProviderServer]:
    async with serving.running() as running:
        yield running


def asking(
    closing: ExitStack,
    kind: str,
    path: Path,
    vendor: FakeProviderServer,
    *,
    stream: bool = False,
    **options: Any,
) -> Ask:
    """Return what asks a model with a client of this kind, in this thread or on its own event loop."""
    package = kind.removeprefix("async_")
    base = vendor.base_url(package)
    client = getattr(sdk, kind)(
        path, fallback=base, api_key="the-key", max_retries=0, default_headers={"X-Mine": "1"}, **options
    )

    def create() -> Any:
        if package == "openai":
            return client.chat.completions.create(model="gpt-5.6", messages=USER, stream=stream)
        return client.messages.create(model="claude-opus-5", max_tokens=9, messages=USER, stream=stream)

    async def whole() -> Any:
        async with client:
            reply = await create()
            return [event async for event in reply] if stream else reply

    if kind != package:
        return lambda: asyncio.run(whole())
    closing.callback(client.close)
    return lambda: list(create()) if stream else create()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["openai", "async_openai", "anthropic", "async_anthropic"])
async def test_while_no_daemon_listens_calls_go_to_the_vendor(
    kind: str,
    stream: bool,
    vendor: FakeProviderServer,
    tmp_path: Path,
    closing: ExitStack,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ask = asking(closing, kind, tmp_path / "none.sock", vendor, stream=stream, **OURS)
    with caplog.at_level(logging.WARNING):
        reply = await asyncio.to_thread(ask)
    assert "You said" in str(reply) or stream
    (request,) = vendor.requests
    sent = dict(request.headers)
    assert "the-key" in {sent.get("authorization", "").removeprefix("Bearer "), sent.get("x-api-key")}
    assert (sent["x-mine"], sent["host"]) == ("1", vendor.url.removeprefix("http://"))
    assert not [name for name in sent if name.startswith("x-agentctx")]
    assert "private" not in str(sent)
    assert [record.name for record in caplog.records] == ["agentctx.client.sdk"]


async def test_a_client_warns_once_and_returns_to_the_daemon(
    vendor: FakeProviderServer, tmp_path: Path, closing: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    import openai

    path = tmp_path / "s"
    ask = asking(closing, "openai", path, vendor)
    await asyncio.to_thread(ask)
    await asyncio.to_thread(ask)
    assert len(caplog.records) == 1
    server = await asyncio.start_unix_server(_refuse, path)
    async with server:
        with pytest.raises(openai.InternalServerError):
            await asyncio.to_thread(ask)
    path.unlink()
    await asyncio.to_thread(ask)
    assert len(caplog.records) == 1
    assert len(vendor.requests) == 3


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    writer.close()


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


def connection_errors() -> tuple[type[Exception], ...]:
    """Return the SDKs' errors. Their imports take seconds, and every process collects these tests."""
    import anthropic
    import openai

    return openai.APIConnectionError, anthropic.APIConnectionError


@pytest.mark.parametrize("kind", ["openai", "async_openai", "anthropic", "async_anthropic"])
async def test_a_call_that_the_daemon_has_read_never_goes_to_the_vendor_too(
    kind: str, vendor: FakeProviderServer, tmp_path: Path, closing: ExitStack
) -> None:
    server = await asyncio.start_unix_server(_hang_up, tmp_path / "s")
    async with server:
        with pytest.raises(connection_errors()):
            await asyncio.to_thread(asking(closing, kind, tmp_path / "s", vendor))
    assert vendor.requests == []


async def test_a_socket_that_nobody_serves_any_more_counts_as_absence(
    vendor: FakeProviderServer, tmp_path: Path, closing: ExitStack
) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
    await asyncio.to_thread(asking(closing, "openai", tmp_path / "s", vendor))
    assert len(vendor.requests) == 1


@pytest.mark.parametrize("make", [sdk.openai, sdk.anthropic])
def test_without_a_fallback_the_call_fails(make: Any, tmp_path: Path) -> None:
    client = make(tmp_path / "none.sock", api_key="k", max_retries=0)
    with client, pytest.raises(connection_errors()):
        client.models.list()


def test_the_vendors_own_address_is_the_default() -> None:
    assert vendor_url(True, "https://api.openai.com/v1") == "https://api.openai.com/v1"
    assert vendor_url("https://gateway.example/v1/", "x") == "https://gateway.example/v1"


@pytest.mark.parametrize(
    "url", ["", "http://example.com/v1", "http://127.0.0.1.example", "ftp://h", "yes", "//h", "https://a:b@h"]
)
def test_keys_go_to_no_address_that_others_can_read(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        vendor_url(url, "x")
    assert "https://" in caught.value.hint
