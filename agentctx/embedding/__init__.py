"""From text to vectors: providers, the queue, rerankers, and the public vector stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentctx.embedding.providers.registry import create_provider

__all__ = ["create_provider"]


def __getattr__(name: str) -> Any:
    if name == "create_provider":
        from agentctx.embedding.providers.registry import create_provider

        return create_provider
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
