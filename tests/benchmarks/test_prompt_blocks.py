from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.prompt_blocks import (
    PromptBlock,
    anthropic_blocks,
    gemini_blocks,
    ollama_blocks,
    openai_chat_blocks,
    openai_responses_blocks,
    tokenize,
    tokens_of,
)


def frames(blocks: list[PromptBlock]) -> list[str]:
    return [block.tokens[0].decode() for block in blocks]


@given(st.binary())
def test_tokens_are_the_content_in_steps_of_four_bytes(content: bytes) -> None:
    tokens = tokenize(content)
    assert b"".join(tokens) == content
    assert all(len(token) == 4 for token in tokens[:-1])


def test_a_message_of_400_bytes_is_101_tokens() -> None:
    body = {"messages": [{"role": "user", "content": "x" * 400}]}
    for read in (anthropic_blocks, openai_chat_blocks, ollama_blocks):
        assert len(tokens_of(read(body))) == 101


def test_anthropic_reads_tools_then_system_then_messages() -> None:
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}],
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "t"}],
    }
    blocks = anthropic_blocks(body)
    assert frames(blocks) == [
        "<tools tool>",
        "<system system>",
        "<messages user>",
        "<messages user+>",
    ]
    assert [block.marker for block in blocks] == [None, {"type": "ephemeral"}, None, None]


@pytest.mark.parametrize(
    ("read", "string", "parts"),
    [
        (
            anthropic_blocks,
            {"system": "s", "messages": [{"role": "user", "content": "a"}]},
            {
                "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
                "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
            },
        ),
        (
            openai_chat_blocks,
            {"messages": [{"role": "user", "content": "a"}]},
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]},
        ),
        (
            openai_responses_blocks,
            {"input": "a"},
            {
                "input": [
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}
                ]
            },
        ),
    ],
)
def test_a_string_and_its_one_part_are_the_same_prompt(read: Any, string: Any, parts: Any) -> None:
    assert tokens_of(read(string)) == tokens_of(read(parts))


def test_the_order_of_keys_counts() -> None:
    one, other = ({"tools": [tool]} for tool in ({"name": "t", "type": "f"}, {"type": "f", "name": "t"}))
    assert tokens_of(anthropic_blocks(one)) != tokens_of(anthropic_blocks(other))


def test_gemini_reads_system_instruction_tools_contents() -> None:
    body: dict[str, Any] = {
        "contents": [
            {"role": "user", "parts": [{"text": "a"}]},
            {"role": "model", "parts": [{"functionCall": {}}]},
        ],
        "tools": [{"functionDeclarations": []}],
        "systemInstruction": {"parts": [{"text": "s"}]},
    }
    expected = ["<system system>", "<tools tool>", "<messages user>", "<messages model>"]
    assert frames(gemini_blocks(body)) == expected


def test_calls_and_their_results_are_distinguished_by_their_ids() -> None:
    def prompt(call: str) -> list[bytes]:
        calls = [{"id": call, "function": {"name": "f", "arguments": "{}"}}]
        messages = [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": call, "content": "r"},
        ]
        return tokens_of(openai_chat_blocks({"messages": messages}))

    assert prompt("one") != prompt("two")


def test_fields_added_by_the_vendor_are_ignored() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    stored = {**call, "id": "fc_1", "status": "completed"}
    assert openai_responses_blocks({"input": [call]}) == openai_responses_blocks({"input": [stored]})


def test_ollama_generate() -> None:
    blocks = ollama_blocks({"system": "s", "prompt": "p", "images": ["aW1n"]})
    assert frames(blocks) == ["<system system>", "<messages user>", "<messages image>"]
