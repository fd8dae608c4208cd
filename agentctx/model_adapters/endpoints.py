"""Each API's endpoint: its path, its key header and its stream format. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from agentctx.errors import InvalidInput
from agentctx.model_adapters.dialects.base import Dialect
from agentctx.model_adapters.dialects.content import Body
from agentctx.model_adapters.dialects.registry import find_dialect
from agentctx.model_adapters.event_stream import EventDecoder, JsonLines, ServerSentEvents


class Target(NamedTuple):
    """An outgoing call: its path below the base URL, and its body."""

    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of one model API. `key_variable` is the environment variable that may hold the key."""

    dialect: Dialect
    base_url: str
    """The vendor's URL, without a trailing slash."""
    path: str
    key_header: str
    key_variable: str
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    decoder: type[EventDecoder] = ServerSentEvents
    streams_by_default: bool = False

    def target(self, request: Body, is_streamed: bool) -> Target:
        """Return the target of a request; the body stays the same object if it already says so."""
        is_said = bool(request.get("stream", self.streams_by_default)) == is_streamed
        return Target(self.path, request if is_said else {**request, "stream": is_streamed})

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the header that carries the key."""
        return {self.key_header: f"Bearer {key}" if self.key_header == "authorization" else key}


class _GeminiEndpoint(Endpoint):
    def target(self, request: Body, is_streamed: bool) -> Target:
        model = request.get("model")
        if not isinstance(model, str) or not model.strip("./ "):
            raise InvalidInput(
                "The request has no model.", hint='Pass it as "model"; Gemini takes it from the path.'
            )
        method = "streamGenerateContent?alt=sse" if is_streamed else "generateContent"
        body = {name: value for name, value in request.items() if name not in {"model", "stream"}}
        return Target(f"{self.path}/{quote(model.removeprefix('models/'), safe='')}:{method}", body)


OPENAI_CHAT = Endpoint(
    find_dialect("openai_chat"),
    "https://api.openai.com/v1",
    "/chat/completions",
    "authorization",
    "OPENAI_API_KEY",
)
OPENAI_RESPONSES = replace(OPENAI_CHAT, dialect=find_dialect("openai_responses"), path="/responses")
ANTHROPIC = Endpoint(
    find_dialect("anthropic_messages"),
    "https://api.anthropic.com",
    "/v1/messages",
    "x-api-key",
    "ANTHROPIC_API_KEY",
    MappingProxyType({"anthropic-version": "2023-06-01"}),
)
GEMINI = _GeminiEndpoint(
    find_dialect("gemini"),
    "https://generativelanguage.googleapis.com/v1beta",
    "/models",
    "x-goog-api-key",
    "GEMINI_API_KEY",
)
OLLAMA = Endpoint(
    find_dialect("ollama"),
    "http://localhost:11434",
    "/api/chat",
    "authorization",
    "OLLAMA_API_KEY",
    decoder=JsonLines,
    streams_by_default=True,
)
