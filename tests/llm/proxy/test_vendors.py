"""Calls that take context, and the places of keys."""

from __future__ import annotations

import pytest

from agentctx.llm.proxy.vendors import VENDORS


@pytest.mark.parametrize(
    ("vendor", "path", "dialect"),
    [
        ("openai", "/v1/chat/completions", "openai_chat"),
        ("openai", "/v1/responses", "openai_responses"),
        ("openai", "/v1/responses/compact", None),
        ("openai", "/v1/responses/input_tokens", None),
        ("openai", "/v1/embeddings", None),
        ("anthropic", "/v1/messages", "anthropic_messages"),
        ("anthropic", "/v1/messages/count_tokens", None),
        ("gemini", "/v1beta/models/gemini-3-pro:generateContent", "gemini"),
        ("gemini", "/v1/models/gemini-3-pro:streamGenerateContent", "gemini"),
        ("gemini", "/v1beta/models/gemini-embedding-2:batchEmbedContents", None),
        ("ollama", "/api/chat", "ollama"),
        ("ollama", "/v1/chat/completions", "openai_chat"),
        ("ollama", "/api/generate", None),
    ],
)
def test_the_calls_that_take_context(vendor: str, path: str, dialect: str | None) -> None:
    found = VENDORS[vendor].dialect_of("POST", path)
    assert (found.name if found else None) == dialect
    assert VENDORS[vendor].dialect_of("GET", path) is None


def test_both_of_anthropics_ways_to_send_a_key_are_keys() -> None:
    anthropic = VENDORS["anthropic"]
    assert anthropic.has_key([(b"x-api-key", b"k")])
    assert anthropic.has_key([(b"authorization", b"Bearer k")])
    assert not anthropic.has_key([(b"anthropic-version", b"2023-06-01")])


def test_the_operators_key_is_sent_the_vendors_way() -> None:
    assert VENDORS["openai"].key_line("k") == (b"authorization", b"Bearer k")
    assert VENDORS["anthropic"].key_line("k") == (b"x-api-key", b"k")
    assert VENDORS["gemini"].key_line("k") == (b"x-goog-api-key", b"k")
