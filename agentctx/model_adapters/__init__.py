"""Context in every LLM call: adapters around models, and the formats of their APIs.

`dialects` reads and rebuilds bodies, `injection` decides what goes where, `conversation` keeps the blocks
given before; none of them does I/O. `adapter` puts them around a model, `http` and `function` are models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentctx.model_adapters.adapter import ContextAwareModelAdapter
    from agentctx.model_adapters.context_source import ServiceContextSource, SocketContextSource
    from agentctx.model_adapters.function import FunctionModelAdapter
    from agentctx.model_adapters.http import (
        AnthropicAdapter,
        GeminiAdapter,
        OllamaAdapter,
        OpenAIChatAdapter,
        OpenAIResponsesAdapter,
    )

__all__ = [
    "AnthropicAdapter",
    "ContextAwareModelAdapter",
    "FunctionModelAdapter",
    "GeminiAdapter",
    "OllamaAdapter",
    "OpenAIChatAdapter",
    "OpenAIResponsesAdapter",
    "ServiceContextSource",
    "SocketContextSource",
]

# Imported when first asked for: an adapter around a function needs no httpx.
_HOMES = {
    "AnthropicAdapter": "http",
    "ContextAwareModelAdapter": "adapter",
    "FunctionModelAdapter": "function",
    "GeminiAdapter": "http",
    "OllamaAdapter": "http",
    "OpenAIChatAdapter": "http",
    "OpenAIResponsesAdapter": "http",
    "ServiceContextSource": "context_source",
    "SocketContextSource": "context_source",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
