"""The paths and bodies that each API expects."""

from __future__ import annotations

from typing import Any

import pytest

from agentctx.model_adapters.endpoints import (
    ANTHROPIC,
    GEMINI,
    OLLAMA,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    Endpoint,
)


@pytest.mark.parametrize("endpoint", [OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC])
def test_a_valid_body_is_sent_unchanged(endpoint: Endpoint) -> None:
    silent: dict[str, Any] = {"model": "m", "x": 1}
    streaming = {**silent, "stream": True}
    assert endpoint.target(silent, False).body is silent
    assert endpoint.target(streaming, True).body is streaming
    assert endpoint.target(silent, True).body == streaming
    assert endpoint.target(streaming, False).body["stream"] is False


def test_ollama_is_asked_not_to_stream() -> None:
    assert OLLAMA.target({"model": "m"}, False).body == {"model": "m", "stream": False}


def test_gemini_has_the_model_in_its_path_and_nowhere_else() -> None:
    request = {"model": "models/gemini-2.5-flash", "contents": []}
    assert GEMINI.target(request, False).path == "/models/gemini-2.5-flash:generateContent"
    assert GEMINI.target(request, True).path == "/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert GEMINI.target(request, True).body == {"contents": []}
    assert GEMINI.target({"model": "a/../b"}, False).path == "/models/a%2F..%2Fb:generateContent"


def test_keys_go_where_each_api_looks_for_them() -> None:
    assert OPENAI_CHAT.key_headers("k") == {"authorization": "Bearer k"}
    assert ANTHROPIC.key_headers("k") == {"x-api-key": "k"}
    assert GEMINI.key_headers("k") == {"x-goog-api-key": "k"}
