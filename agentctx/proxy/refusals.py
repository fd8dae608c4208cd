"""How the proxy says in each vendor's own form that no reply of the vendor came. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from agentctx.errors import AgentctxError

BAD_GATEWAY: Final = 502


def refusal(vendor: str, error: AgentctxError) -> bytes:
    """The body of a 502 that the vendor's SDK shows with its message."""
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
