"""What a model said, extracted from real replies of the fake vendor."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.llm.proxy.replies import MAX_BYTES, ReplyReader, event_texts
from agentctx_testing.fake_provider import serving
from agentctx_testing.fake_provider.answers import FakeAnswer, ToolCall

SAID = "The tower stands in Kiruna.\nIt has 9 floors."
USER: list[dict[str, Any]] = [{"role": "user", "content": "Where?"}]
KEYS = {
    "authorization": "Bearer k",
    "x-api-key": "k",
    "x-goog-api-key": "k",
    "anthropic-version": "2023-06-01",
}
GEMINI = "/google/v1beta/models/gemini-3-flash"
REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "chat": ("openai_chat", "/openai/v1/chat/completions", {"model": "m", "messages": USER}),
    "chat streamed": (
        "openai_chat",
        "/openai/v1/chat/completions",
        {"model": "m", "messages": USER, "stream": True},
    ),
    "responses": ("openai_responses", "/openai/v1/responses", {"model": "m", "input": "Where?"}),
    "responses streamed": (
        "openai_responses",
        "/openai/v1/responses",
        {"model": "m", "input": "Where?", "stream": True},
    ),
    "anthropic": (
        "anthropic_messages",
        "/anthropic/v1/messages",
        {"model": "claude-opus-5", "messages": USER, "max_tokens": 99},
    ),
    "anthropic streamed": (
        "anthropic_messages",
        "/anthropic/v1/messages",
        {"model": "claude-opus-5", "messages": USER, "max_tokens": 99, "stream": True},
    ),
    "gemini": ("gemini", f"{GEMINI}:generateContent", {"contents": [{"parts": [{"text": "Where?"}]}]}),
    "gemini streamed": (
        "gemini",
        f"{GEMINI}:streamGenerateContent?alt=sse",
        {"contents": [{"parts": [{"text": "Where?"}]}]},
    ),
    "ollama": ("ollama", "/ollama/api/chat", {"model": "m", "messages": USER, "stream": False}),
    "ollama streamed": ("ollama", "/ollama/api/chat", {"model": "m", "messages": USER}),
}


def read(dialect: str, headers: Mapping[str, str], *pieces: bytes) -> str:
    reader = ReplyReader(dialect, headers)
    for piece in pieces:
        reader.feed(piece)
    return reader.text()


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("with_calls", [False, True])
async def test_the_text_of_every_reply(name: str, with_calls: bool) -> None:
    dialect, path, body = REQUESTS[name]
    calls = (ToolCall(name="look", arguments={"secret": "in a call"}),) if with_calls else ()
    async with serving.running() as vendor, httpx.AsyncClient(trust_env=False) as http:
        vendor.answer(FakeAnswer(text=SAID, calls=calls))
        reply = await http.post(vendor.url + path, headers=KEYS, json=body)
    assert reply.status_code == 200, reply.text
    halves = reply.content[:100], reply.content[100:]
    assert read(dialect, {key.lower(): value for key, value in reply.headers.items()}, *halves) == SAID


def chat(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}}]}).encode()


def test_a_compressed_reply_is_decompressed() -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert read("openai_chat", headers, gzip.compress(chat("packed"))) == "packed"
    assert read("openai_chat", headers, b"no gzip") == ""


def test_a_reply_with_an_unknown_encoding_is_not_read() -> None:
    headers = {"content-type": "application/json", "content-encoding": "br"}
    assert read("openai_chat", headers, chat("text")) == ""


def test_a_decompression_bomb_is_not_expanded() -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    reader = ReplyReader("openai_chat", headers)
    reader.feed(gzip.compress(b" " * (50 * MAX_BYTES)))
    assert reader.text() == ""


@given(
    dialect=st.sampled_from(["openai_chat", "openai_responses", "anthropic_messages", "gemini", "ollama"]),
    kind=st.sampled_from(["application/json", "text/event-stream", "application/x-ndjson", ""]),
    reply=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "delta",
                        "message",
                        "content",
                        "type",
                        "output",
                        "candidates",
                        "parts",
                        "text",
                    ]
                ),
                inner,
            )
        ),
    ),
)
def test_no_reply_raises(dialect: str, kind: str, reply: Any) -> None:
    data = json.dumps(reply).encode()
    for piece in (data, b"data: " + data + b"\n\n", data[:-1]):
        assert isinstance(read(dialect, {"content-type": kind}, piece), str)


EVENTS = st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=2), max_size=5)
ENDS = st.sampled_from(["\n", "\r\n"])


def events(data: str, content_type: str) -> list[Any]:
    return [json.loads(text) for text in event_texts(data.encode(), content_type)]


@given(EVENTS, ENDS, st.booleans())
def test_server_sent_events(sent: list[dict[str, str]], end: str, is_named: bool) -> None:
    name = f"event: x{end}: a comment{end}" if is_named else ""
    # Not escaped: Python takes some of these characters for line ends.
    texts = [f"{name}data: {json.dumps(event, ensure_ascii=False)}{end}{end}" for event in sent]
    assert events("".join([*texts, f"data: [DONE]{end}{end}"]), "text/event-stream") == sent


@given(EVENTS, ENDS, st.booleans())
def test_json_lines(sent: list[dict[str, str]], end: str, is_ended: bool) -> None:
    data = end.join(json.dumps(event, ensure_ascii=False) for event in sent) + (end if is_ended else "")
    assert events(data, "application/x-ndjson") == sent


def test_data_of_several_lines_is_one_event() -> None:
    assert events('data: {"a":\ndata: 1}\n', "text/event-stream") == [{"a": 1}]


@pytest.mark.parametrize("data", [b"data: nonsense\n\n", b"data: [1]\n\n", b"[1]\n", b"{\n"])
def test_a_reply_with_an_event_that_is_not_an_object_has_no_text(data: bytes) -> None:
    kind = "text/event-stream" if data.startswith(b"data") else "application/x-ndjson"
    said = chat("text")
    whole = b"data: " + said + b"\n\n" if data.startswith(b"data") else said + b"\n"
    assert read("openai_chat", {"content-type": kind}, whole) == "text"
    assert read("openai_chat", {"content-type": kind}, whole, data) == ""


SAYS = "It has 9 floors and a view."
BROKEN_OFF: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "chat: max_tokens": (
        "openai_chat",
        [{"choices": [{"message": {"content": SAYS}, "finish_reason": "length"}]}],
    ),
    "chat: filtered": (
        "openai_chat",
        [{"choices": [{"message": {"content": SAYS}, "finish_reason": "content_filter"}]}],
    ),
    "chat: refusal": (
        "openai_chat",
        [{"choices": [{"message": {"content": SAYS, "refusal": "No."}, "finish_reason": "stop"}]}],
    ),
    "chat: an error in the stream": (
        "openai_chat",
        [{"choices": [{"delta": {"content": SAYS}}]}, {"error": {"message": "overloaded"}}],
    ),
    "chat: a stream without an end": (
        "openai_chat",
        [{"choices": [{"delta": {"content": half}}]} for half in (SAYS, SAYS)],
    ),
    "anthropic: max_tokens": (
        "anthropic_messages",
        [{"content": [{"type": "text", "text": SAYS}], "stop_reason": "max_tokens"}],
    ),
    "anthropic: refusal, streamed": (
        "anthropic_messages",
        [
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": SAYS}},
            {"type": "message_delta", "delta": {"stop_reason": "refusal"}},
        ],
    ),
    "anthropic: an error in the stream": (
        "anthropic_messages",
        [
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": SAYS}},
            {"type": "error", "error": {"type": "overloaded_error"}},
        ],
    ),
    "responses: incomplete": (
        "openai_responses",
        [
            {
                "object": "response",
                "status": "incomplete",
                "output": [{"content": [{"type": "output_text", "text": SAYS}]}],
            }
        ],
    ),
    "responses: failed, streamed": (
        "openai_responses",
        [
            {"type": "response.output_text.delta", "delta": SAYS},
            {"type": "response.failed", "response": {"object": "response", "status": "failed"}},
        ],
    ),
    "responses: refusal, streamed": (
        "openai_responses",
        [
            {"type": "response.output_text.delta", "delta": SAYS},
            {"type": "response.refusal.delta", "delta": "No."},
            {"type": "response.completed", "response": {"object": "response", "status": "completed"}},
        ],
    ),
    "gemini: safety": (
        "gemini",
        [{"candidates": [{"content": {"parts": [{"text": SAYS}]}, "finishReason": "SAFETY"}]}],
    ),
    "ollama: length": (
        "ollama",
        [{"message": {"content": SAYS}}, {"done": True, "done_reason": "length", "message": {"content": ""}}],
    ),
}


@pytest.mark.parametrize("name", BROKEN_OFF)
def test_a_reply_that_was_broken_off_is_no_answer(name: str) -> None:
    dialect, events = BROKEN_OFF[name]
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    assert read(dialect, {"content-type": "text/event-stream"}, data) == ""
    lines = b"\n".join(json.dumps(event).encode() for event in events)
    kind = "application/json" if len(events) == 1 else "application/x-ndjson"
    assert read(dialect, {"content-type": kind}, lines) == ""


def test_one_of_several_answers_is_taken() -> None:
    both = [{"index": 1, "message": {"content": "no"}}, {"index": 0, "message": {"content": "yes"}}]
    reply = json.dumps({"choices": both}).encode()
    assert read("openai_chat", {"content-type": "application/json"}, reply) == "yes"
    pieces = [(0, "ye", None), (1, "n", None), (0, "s", None), (1, "o", "length"), (0, "", "stop")]
    events = [
        {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": reason}]}
        for index, text, reason in pieces
    ]
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    assert read("openai_chat", {"content-type": "text/event-stream"}, data) == "yes"
