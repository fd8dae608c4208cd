"""The Python client. Imports no server code; asyncio comes with `AsyncClient`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentctx.client.async_client import AsyncClient
    from agentctx.client.sdk import anthropic, async_anthropic, async_openai, openai
    from agentctx.client.sync_client import Client

__all__ = ["AsyncClient", "Client", "anthropic", "async_anthropic", "async_openai", "openai"]

# Imported when first asked for: a program without an event loop need not load one.
_HOMES = {
    "AsyncClient": "agentctx.client.async_client",
    "Client": "agentctx.client.sync_client",
    "anthropic": "agentctx.client.sdk",
    "async_anthropic": "agentctx.client.sdk",
    "async_openai": "agentctx.client.sdk",
    "openai": "agentctx.client.sdk",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
