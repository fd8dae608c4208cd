"""OpenAI's Responses: items instead of messages, named events, and conversations stored by the vendor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentctx_testing.fake_provider.answers import ToolCall, argument_pieces, text_pieces
from agentctx_testing.fake_provider.dialects.base import ChatEndpoint
from agentctx_testing.fake_provider.exchange import ChatRequest, FakeExchange, chat_request, event, parts_of
from agentctx_testing.fake_provider.requests import Payload, require


def read(payload: Payload, _: str, __: Mapping[str, str]) -> ChatRequest:
    """Read a request. Raises `RefusalError` as OpenAI does, also for the output of an unknown call."""
    items = input_items(payload)
    require(items, "Missing required parameter: 'input'.", param="input", code="missing_required_parameter")
    _require_calls(items)
    last = items[-1]
    output = last.get("output")
    parts = parts_of(last.get("content") if output is None else output)
    return chat_request(payload, parts, image="input_image", is_stream=payload.get("stream") is True)


def input_items(payload: Payload) -> list[Payload]:
    """Return the items of `input`; a bare string is one user message."""
    given = payload.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []


def recall(payload: Payload, stored: Mapping[str, Sequence[Payload]]) -> Payload:
    """Prepend the items that `previous_response_id` refers to. Raises `RefusalError`."""
    previous = payload.get("previous_response_id")
    if previous is None:
        return payload
    known = previous in stored
    require(
        known,
        f"Previous response with id '{previous}' not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )
    return {**payload, "input": [*stored[previous], *input_items(payload)]}


def remember(exchange: FakeExchange) -> tuple[str, list[Payload]] | None:
    """Return the id and the items of the conversation to store; None if the client asks not to store it."""
    body = exchange.request.body
    if body.get("store") is False:
        return None
    return _id(exchange), [*input_items(body), *_output(exchange)]


def write(exchange: FakeExchange) -> Payload:
    return _response(exchange, "completed", _output(exchange))


def stream(exchange: FakeExchange) -> list[bytes]:
    events = list(_events(exchange))
    return [
        event({**payload, "sequence_number": number}, str(payload["type"]))
        for number, payload in enumerate(events)
    ]


def stream_error(refusal: Payload) -> bytes:
    error = refusal["error"]
    fields = {name: error.get(name) for name in ("code", "message", "param")}
    return event({"type": "error", **fields, "sequence_number": 0}, "error")


def _events(exchange: FakeExchange) -> Iterator[Payload]:
    begun = _response(exchange, "in_progress", [])
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(_output(exchange)):
        if item["type"] == "message":
            yield from _message_events(index, item, exchange.answer.text)
        else:
            call = exchange.answer.calls[index - bool(exchange.answer.text)]
            yield from _call_events(index, item, call)
    yield {"type": "response.completed", "response": write(exchange)}


def _message_events(index: int, item: Payload, text: str) -> Iterator[Payload]:
    location = {"item_id": item["id"], "output_index": index, "content_index": 0}
    part = item["content"][0]
    begun = {**item, "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    yield {"type": "response.content_part.added", **location, "part": {**part, "text": ""}}
    for piece in text_pieces(text):
        yield {"type": "response.output_text.delta", **location, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **location, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **location, "part": part}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _call_events(index: int, item: Payload, call: ToolCall) -> Iterator[Payload]:
    location = {"item_id": item["id"], "output_index": index}
    begun = {**item, "status": "in_progress", "arguments": ""}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    for piece in argument_pieces(call):
        yield {"type": "response.function_call_arguments.delta", **location, "delta": piece}
    done = {"name": call.name, "arguments": call.arguments_json}
    yield {"type": "response.function_call_arguments.done", **location, **done}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _output(exchange: FakeExchange) -> list[Payload]:
    items: list[Payload] = []
    if exchange.answer.text:
        part = {"type": "output_text", "text": exchange.answer.text, "annotations": [], "logprobs": []}
        message = {"id": f"msg_{exchange.id}", "type": "message", "status": "completed", "role": "assistant"}
        items.append({**message, "content": [part]})
    items += [
        {
            "id": f"fc_{exchange.id}{number}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments_json,
            **({"namespace": call.namespace} if call.namespace else {}),
        }
        for number, call in enumerate(exchange.answer.calls)
    ]
    return items


def _response(exchange: FakeExchange, status: str, output: Sequence[Payload]) -> Payload:
    body = exchange.request.body
    return {
        "id": _id(exchange),
        "object": "response",
        "created_at": exchange.created_s,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata") or {},
        "model": exchange.request.model,
        "output": list(output),
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store", True),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _usage(exchange) if status == "completed" else None,
    }


def _usage(exchange: FakeExchange) -> Payload:
    tokens, output = exchange.request.prompt_tokens, exchange.output_tokens
    return {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + output,
    }


def _id(exchange: FakeExchange) -> str:
    return f"resp_{exchange.id}"


def _require_calls(items: Sequence[Payload]) -> None:
    called: set[object] = set()
    answered: set[object] = set()
    for item in items:
        call_id = item.get("call_id")
        if item.get("type") == "function_call":
            called.add(call_id)
        elif item.get("type") == "function_call_output":
            message = f"No tool call found for function call output with call_id {call_id}."
            require(call_id in called, message, param="input")
            answered.add(call_id)
    missing = sorted(map(str, called - answered))
    require(not missing, f"No tool output found for function call {', '.join(missing)}.", param="input")


RESPONSES = ChatEndpoint("/v1/responses", read, write, stream, stream_error, recall=recall, remember=remember)
