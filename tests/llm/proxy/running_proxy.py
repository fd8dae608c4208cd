"""A daemon with its proxy in the test's event loop, in front of a fake vendor; both speak real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentctx import AsyncClient
from agentctx.config.schema import TOKEN_FILE, Settings
from agentctx.daemon.run import run
from agentctx_testing.fake_provider import serving
from agentctx_testing.fake_provider.script import RecordedRequest
from agentctx_testing.fake_provider.serving import FakeProviderServer
from tests.ports import free_port

MEMORY = "The deploy window is on Tuesday at nine; Rosa has the key."
QUESTION = "When is the deploy window?"
HEADING = "## Semantic Context (RAG)"

LIMIT_S = 60.0
"""Seconds for an answer on a machine that is busy with other tests."""


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """The parties a test talks to."""

    socket: Path
    port: int
    token: str
    vendor: FakeProviderServer
    memory: AsyncClient
    stop: asyncio.Event

    def over_socket(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(self.socket)),
            base_url="http://agentctx/proxy",
            timeout=LIMIT_S,
        )

    def over_tcp(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}/proxy",
            headers={"X-Agentctx-Token": self.token},
            trust_env=False,
            timeout=LIMIT_S,
        )

    @property
    def last(self) -> RecordedRequest:
        """The request that reached the vendor last."""
        return self.vendor.requests[-1]

    @property
    def last_body(self) -> Any:
        return json.loads(self.last.body)


def settings_of(folder: Path, vendor_url: str, port: int, **overrides: Any) -> Settings:
    """`overrides` are sections of the config."""
    sections: dict[str, Any] = {
        "data_dir": folder / "data",
        "socket": folder / "a.sock",
        "embedding": {"provider": "fake"},
        **overrides,
    }
    proxy = {
        "openai_url": f"{vendor_url}/openai",
        "anthropic_url": f"{vendor_url}/anthropic",
        "gemini_url": f"{vendor_url}/google",
        "ollama_url": f"{vendor_url}/ollama",
        "tcp_port": port,
        **overrides.get("proxy", {}),
    }
    # A loaded machine must not make a call go out without its context.
    injection = {"deadline_ms": 60_000, **overrides.get("injection", {})}
    return Settings.model_validate({**sections, "proxy": proxy, "injection": injection})


@asynccontextmanager
async def running_proxy(
    folder: Path, *, saved: str = MEMORY, **overrides: Any
) -> AsyncIterator[RunningProxy]:
    """Start with `saved` in the memory, embedded; with an empty one if it is empty."""
    port, stop = free_port(), asyncio.Event()
    async with serving.running() as vendor:
        settings = settings_of(folder, vendor.url, port, **overrides)
        assert settings.socket is not None
        environment = pytest.MonkeyPatch()
        environment.setenv("XDG_STATE_HOME", str(folder / "state"))
        daemon = asyncio.create_task(run(settings, stop=stop))
        try:
            async with AsyncClient(settings.socket) as memory:
                await _until_ready(memory, daemon)
                if saved:
                    await memory.save_knowledge("deploy", saved, wait="embedded")
                token = (folder / "data" / TOKEN_FILE).read_text(encoding="ascii").strip()
                yield RunningProxy(settings.socket, port, token, vendor, memory, stop)
        finally:
            stop.set()
            await daemon
            environment.undo()


async def _until_ready(memory: AsyncClient, daemon: asyncio.Task[None]) -> None:
    """Wait for the daemon; raise immediately if it does not start."""
    asking = asyncio.create_task(memory.status())
    await asyncio.wait({asking, daemon}, return_when=asyncio.FIRST_COMPLETED)
    if daemon.done():
        asking.cancel()
        daemon.result()
    await asking
