"""Each API's endpoint: its path, its key header and its stream format. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from agentctx.errors import InvalidInput
from agentctx.model_adapters.dialects.base import Dialect
from agentctx.model_adapters.dialects.content import Body
from agentctx.model_adapters.dialects.registry import find_dialect
from agentctx.model_adapters.event_stream import EventDecoder, JsonLines, ServerSentEvents


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An outgoing call: its path below the base URL, and its body."""

    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The endpoint of one model API."""

    dialect: Dialect
    base_url: str
    """The vendor's URL, without a trailing slash."""
    target: Callable[[Body, bool], Target]
    """Builds the target of a request; the second argument says whether to stream the reply."""
    decoder: Callable[[], EventDecoder]
    key_header: str
    key_variable: str
    """Environment variable that holds the key if none is given."""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the header that carries the key."""
        return {self.key_header: f"Bearer {key}" if self.key_header == "authorization" else key}


def _at(path: str) -> Callable[[Body, bool], Target]:
    def target(request: Body, is_streamed: bool) -> Target:
        return Target(path=path, body=_with_stream(request, is_streamed))

    return target


def _with_stream(request: Body, is_streamed: bool) -> Mapping[str, Any]:
    """Set `stream` in the body; return the same body if it already says so, explicitly or by default."""
    if bool(request.get("stream")) == is_streamed:
        return request
    return {**request, "stream": is_streamed}


def _ollama_target(request: Body, is_streamed: bool) -> Target:
    # Ollama streams by default.
    return Target(path="/api/chat", body={**request, "stream": is_streamed})


def _gemini_target(request: Body, is_streamed: bool) -> Target:
    model = request.get("model")
    if not isinstance(model, str) or not model.strip("./ "):
        raise InvalidInput(
            "The request has no model.", hint='Pass it as "model"; Gemini takes it from the path.'
        )
    method = "streamGenerateContent?alt=sse" if is_streamed else "generateContent"
    body = {name: value for name, value in request.items() if name not in {"model", "stream"}}
    return Target(path=f"/models/{quote(model.removeprefix('models/'), safe='')}:{method}", body=body)


OPENAI_CHAT = Endpoint(
    dialect=find_dialect("openai_chat"),
    base_url="https://api.openai.com/v1",
    target=_at("/chat/completions"),
    decoder=ServerSentEvents,
    key_header="authorization",
    key_variable="OPENAI_API_KEY",
)
OPENAI_RESPONSES = Endpoint(
    dialect=find_dialect("openai_responses"),
    base_url="https://api.openai.com/v1",
    target=_at("/responses"),
    decoder=ServerSentEvents,
    key_header="authorization",
    key_variable="OPENAI_API_KEY",
)
ANTHROPIC = Endpoint(
    dialect=find_dialect("anthropic_messages"),
    base_url="https://api.anthropic.com",
    target=_at("/v1/messages"),
    decoder=ServerSentEvents,
    key_header="x-api-key",
    key_variable="ANTHROPIC_API_KEY",
    headers=MappingProxyType({"anthropic-version": "2023-06-01"}),
)
GEMINI = Endpoint(
    dialect=find_dialect("gemini"),
    base_url="https://generativelanguage.googleapis.com/v1beta",
    target=_gemini_target,
    decoder=ServerSentEvents,
    key_header="x-goog-api-key",
    key_variable="GEMINI_API_KEY",
)
OLLAMA = Endpoint(
    dialect=find_dialect("ollama"),
    base_url="http://localhost:11434",
    target=_ollama_target,
    decoder=JsonLines,
    key_header="authorization",
    key_variable="OLLAMA_API_KEY",
)
