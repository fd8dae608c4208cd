"""OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentctx_testing.fake_provider.answers import argument_pieces, text_pieces
from agentctx_testing.fake_provider.dialects.base import ChatEndpoint
from agentctx_testing.fake_provider.exchange import (
    ChatRequest,
    FakeExchange,
    chat_request,
    event,
    objects_field,
    parts_of,
)
from agentctx_testing.fake_provider.requests import Payload, require

_ROLES = frozenset({"developer", "system", "user", "assistant", "tool", "function"})
_DONE = b"data: [DONE]\n\n"


def read(payload: Payload, _: str, __: Mapping[str, str]) -> ChatRequest:
    """Read a chat request. Raises `RefusalError` as OpenAI does, also for tool calls without results."""
    messages = objects_field(payload, "messages", "Missing required parameter: 'messages'.")
    for at, message in enumerate(messages):
        role = message.get("role")
        require(
            role in _ROLES,
            f"Invalid value: {role!r}. Supported values are: 'system', 'assistant', 'user', 'function', "
            "'tool', and 'developer'.",
            param=f"messages[{at}].role",
            code="invalid_value",
        )
    _require_results(messages)
    last = parts_of(messages[-1].get("content"))
    return chat_request(payload, last, image="image_url", is_stream=payload.get("stream") is True)


def write(exchange: FakeExchange) -> Payload:
    answer = exchange.answer
    message: Payload = {
        "role": "assistant",
        "content": answer.text or None,
        "refusal": None,
        "annotations": [],
    }
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_json},
            }
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(exchange)}
    return {**_head(exchange, "chat.completion"), "choices": [choice], "usage": usage(exchange)}


def stream(exchange: FakeExchange) -> list[bytes]:
    """With `stream_options.include_usage`, end with a chunk that has the usage and no choice."""
    options = exchange.request.body.get("stream_options") or {}
    with_usage = bool(options.get("include_usage"))
    head = _head(exchange, "chat.completion.chunk")
    unused = {"usage": None} if with_usage else {}
    deltas = _deltas(exchange)
    reasons = [None] * (len(deltas) - 1) + [_reason(exchange)]
    chunks = [
        {
            **head,
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
            **unused,
        }
        for delta, reason in zip(deltas, reasons, strict=True)
    ]
    if with_usage:
        chunks.append({**head, "choices": [], "usage": usage(exchange)})
    return [*map(event, chunks), _DONE]


def usage(exchange: FakeExchange) -> Payload:
    tokens, output = exchange.request.prompt_tokens, exchange.output_tokens
    return {
        "prompt_tokens": tokens,
        "completion_tokens": output,
        "total_tokens": tokens + output,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _deltas(exchange: FakeExchange) -> list[Payload]:
    """The first delta names the role; the last is empty."""
    deltas: list[Payload] = [{"role": "assistant", "content": "" if exchange.answer.text else None}]
    deltas += [{"content": piece} for piece in text_pieces(exchange.answer.text)]
    for index, call in enumerate(exchange.answer.calls):
        begin = {"index": index, "id": call.id, "type": "function"}
        deltas.append({"tool_calls": [{**begin, "function": {"name": call.name, "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in argument_pieces(call)
        ]
    return [*deltas, {}]


def _head(exchange: FakeExchange, kind: str) -> Payload:
    return {
        "id": f"chatcmpl-{exchange.id}",
        "object": kind,
        "created": exchange.created_s,
        "model": exchange.request.model,
        "service_tier": "default",
        "system_fingerprint": None,
    }


def _reason(exchange: FakeExchange) -> str:
    return "tool_calls" if exchange.answer.calls else "stop"


def _require_results(messages: Sequence[Payload]) -> None:
    """The tool messages right after a message with calls must answer every call, and nothing else."""
    open_ids: list[str] = []
    for message in messages:
        if message.get("role") == "tool":
            require(
                message.get("tool_call_id") in open_ids,
                "Invalid parameter: messages with role 'tool' must be a response to a preceding message with "
                "'tool_calls'.",
                param="messages",
            )
            open_ids.remove(str(message["tool_call_id"]))
            continue
        _require_none(open_ids)
        open_ids = [str(call.get("id")) for call in message.get("tool_calls") or ()]
    _require_none(open_ids)


def _require_none(open_ids: Sequence[str]) -> None:
    require(
        not open_ids,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        "'tool_call_id'. The following tool_call_ids did not have response messages: " + ", ".join(open_ids),
        param="messages",
    )


CHAT_COMPLETIONS = ChatEndpoint("/v1/chat/completions", read, write, stream, stream_error=event)
