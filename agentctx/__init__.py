"""agentctx: one shared, durable memory for every agent process on a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentctx.client import AsyncClient, Client
    from agentctx.model_adapters import ContextAwareModelAdapter

__version__ = "0.1.0"

__all__ = ["AsyncClient", "Client", "ContextAwareModelAdapter", "__version__"]

# Imported when first asked for: the daemon and the command line need none of them to start.
_HOMES = {
    "AsyncClient": "agentctx.client",
    "Client": "agentctx.client",
    "ContextAwareModelAdapter": "agentctx.model_adapters",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
