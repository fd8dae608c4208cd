"""The dialects by name."""

from __future__ import annotations

from agentctx.errors import InvalidInput
from agentctx.llm.dialects.anthropic_messages import AnthropicMessages
from agentctx.llm.dialects.base import Dialect
from agentctx.llm.dialects.gemini import Gemini
from agentctx.llm.dialects.ollama import Ollama
from agentctx.llm.dialects.openai_chat import OpenAIChat
from agentctx.llm.dialects.openai_responses import OpenAIResponses

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (OpenAIChat(), OpenAIResponses(), AnthropicMessages(), Gemini(), Ollama())
}


def find_dialect(name: str) -> Dialect:
    """Return the dialect with that name.

    Raises:
        InvalidInput: the name is unknown.
    """
    if name not in DIALECTS:
        raise InvalidInput(f"Unknown dialect {name!r}.", hint=f"Use one of {', '.join(DIALECTS)}.")
    return DIALECTS[name]
