"""Report in each vendor's own format that the vendor sent no reply. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from agentctx.errors import AgentctxError

BAD_GATEWAY: Final = 502


def refusal(vendor: str, error: AgentctxError) -> bytes:
    """Return the body of a 502, whose message the vendor's SDK shows."""
    text = f"{error.message} {error.hint}".strip()
    return json.dumps(_FORMS[vendor](error.code, text), ensure_ascii=False).encode()


def _openai(code: str, text: str) -> Any:
    return {"error": {"message": text, "type": "server_error", "param": None, "code": code}}


def _anthropic(_: str, text: str) -> Any:
    return {"type": "error", "error": {"type": "api_error", "message": text}}


def _gemini(_: str, text: str) -> Any:
    return {"error": {"code": BAD_GATEWAY, "message": text, "status": "UNAVAILABLE"}}


def _ollama(_: str, text: str) -> Any:
    return {"error": text}


_FORMS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
}
