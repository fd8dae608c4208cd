"""agentctx: one shared, durable memory for every agent process on a machine."""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would take a third of a hook's startup time
if TYPE_CHECKING:
    from typing import Any

    from agentctx.client.async_client import AsyncClient
    from agentctx.client.sync_client import Client
    from agentctx.llm.adapter import ContextAwareModelAdapter

__version__ = "0.2.0.dev0"

__all__ = ["AsyncClient", "Client", "ContextAwareModelAdapter", "__version__"]


def __getattr__(name: str) -> Any:
    # Imported on first use: the daemon and the command line do not need them, nor does `Client` need asyncio.
    match name:
        case "AsyncClient":
            from agentctx.client import async_client

            return async_client.AsyncClient
        case "Client":
            from agentctx.client import sync_client

            return sync_client.Client
        case "ContextAwareModelAdapter":
            from agentctx.llm import adapter

            return adapter.ContextAwareModelAdapter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
