"""Neither client nor vendor can redirect the daemon: it sends no request, and so no key, elsewhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentctx.errors import AgentctxError
from tests.llm.proxy.canary import Listener, listening, redirect_to, vectors
from tests.llm.proxy.running_proxy import RunningProxy, running_proxy

FROM_ENVIRONMENT = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture
async def canary(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Listener]:
    """Also what the environment calls a proxy."""
    async with listening() as canary:
        for name in FROM_ENVIRONMENT:
            monkeypatch.setenv(name, f"http://{canary.address}")
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("no_proxy", "")
        yield canary


async def exchanged(running: RunningProxy, request: bytes) -> bytes:
    """Return everything received until the daemon closed the connection."""
    reader, writer = await asyncio.open_unix_connection(os.fspath(running.socket))
    try:
        writer.write(request)
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.close()


def settings(vendor: Listener) -> dict[str, str]:
    """The address has no path, so a request could replace all of it."""
    address = f"http://{vendor.address}"
    keys = {f"{name}_key": "operator-key" for name in ("openai", "anthropic", "gemini")}
    urls = {f"{name}_url": address for name in ("openai", "anthropic", "gemini", "ollama")}
    return {**keys, **urls}


@pytest.mark.usefixtures("logging_as_before")
async def test_no_request_leads_the_proxy_elsewhere(tmp_path: Path, canary: Listener) -> None:
    async with listening() as vendor, running_proxy(tmp_path, saved="", proxy=settings(vendor)) as running:
        tried = dict(vectors(canary.port))
        statuses = {name: (await exchanged(running, request))[9:12] for name, request in tried.items()}
        assert canary.connections == 0, canary.heads
        assert len(tried) >= 100
        assert set(statuses.values()) <= {b"200", b"400", b"404", b"405"}, statuses
        assert vendor.heads, "none of them was passed on, so nothing was tried"
        host = f"host: {vendor.address}".encode()
        assert all(host in head.lower() for head in vendor.heads)
        # The operator's key is for calls without one only.
        assert not any(b"operator-key" in head for head in vendor.heads)


@pytest.mark.usefixtures("logging_as_before")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_forwarded_and_not_followed(
    tmp_path: Path, canary: Listener, status: int
) -> None:
    async with (
        listening(redirect_to(canary, status)) as vendor,
        running_proxy(tmp_path, saved="", proxy=settings(vendor)) as running,
    ):
        request = b"GET /proxy/openai/v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        assert (await exchanged(running, request))[9:12] == str(status).encode()
        assert b"operator-key" in vendor.heads[0]
    assert canary.connections == 0


@pytest.mark.usefixtures("logging_as_before")
@pytest.mark.parametrize("path", ["/v1/search", "/v1/context", "/v1/entries", "/v1/backup", "/v1/reembed"])
async def test_no_field_of_the_api_is_an_address(tmp_path: Path, canary: Listener, path: str) -> None:
    async with running_proxy(tmp_path, saved="") as running:
        for name in ("api_base", "base_url", "provider", "model", "url", "webhook", "endpoint"):
            body = f'{{"query":"a","collection":"knowledge","{name}":"http://{canary.address}/"}}'.encode()
            head = (
                f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            assert (await exchanged(running, head.encode() + body))[9:12] in {b"400", b"404", b"405"}
    assert canary.connections == 0


async def test_an_embedding_provider_that_redirects_has_failed(canary: Listener) -> None:
    from pydantic import SecretStr

    from agentctx.embedding.providers.remote.http import Address, HttpClient

    async with listening(redirect_to(canary)) as provider:
        client = HttpClient(
            Address(base_url=f"http://{provider.address}/v1", key=SecretStr("operator-key")), timeout_s=10
        )
        with pytest.raises(AgentctxError):
            await client.post("/embeddings", {"input": ["a"]}, texts=["a"], max_bytes=1_000)
        await client.aclose()
    assert (provider.connections, canary.connections) == (1, 0)


async def test_a_reranker_that_redirects_has_failed(canary: Listener) -> None:
    from agentctx.embedding.rerankers.cohere import CohereReranker
    from agentctx.text.chunking.base import PositionAwareChunk

    pytest.importorskip("cohere")
    async with listening(redirect_to(canary)) as vendor:
        reranker = await CohereReranker.create(
            api_key="operator-key", base_url=f"http://{vendor.address}", max_retries=0
        )
        chunks = [PositionAwareChunk(id=text, content=text, doc_id="d", start=0, end=1) for text in "ab"]
        with pytest.raises(AgentctxError):
            await reranker.rerank("q", chunks)
        await reranker.aclose()
    assert (vendor.connections, canary.connections) == (1, 0)


async def test_an_embedder_of_openai_that_redirects_has_failed(
    canary: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentctx.embedding.providers.openai_embedder import OpenAIEmbedder

    pytest.importorskip("openai")
    async with listening(redirect_to(canary)) as vendor:
        monkeypatch.setenv("OPENAI_API_KEY", "operator-key")
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://{vendor.address}")
        # It runs in a program of the user's, where proxies of the environment count.
        for name in FROM_ENVIRONMENT:
            monkeypatch.delenv(name)
        embedder = await OpenAIEmbedder.create()
        embedder._client.max_retries = 0
        with pytest.raises(AgentctxError):
            await embedder.embed(["a"])
        await embedder.aclose()
    assert (vendor.connections, canary.connections) == (1, 0)
