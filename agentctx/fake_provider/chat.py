"""Chats: a request and its answer, whatever the provider's format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from agentctx.fake_provider.answers import FakeAnswer, echo
from agentctx.fake_provider.dialects.base import ChatEndpoint
from agentctx.fake_provider.exchange import FakeExchange
from agentctx.fake_provider.requests import Payload
from agentctx.fake_provider.script import RecordedRequest, Script

_ID_DIGITS = 24


def answered(
    script: Script,
    seen: RecordedRequest,
    endpoint: ChatEndpoint,
    body: Payload,
    *,
    model: str,
    query: Mapping[str, str],
    now_ms: int,
) -> FakeExchange:
    """Return the exchange for a request: the scripted answer if one matches, else an echo.

    Raises:
        Rejected: the vendor would refuse the request.
    """
    whole = endpoint.recall(body, script.conversations) if endpoint.recall else body
    request = endpoint.read(whole, model, query)
    request_id = digest(body)
    scripted = FakeAnswer() if request.is_silent else script.answer(seen)
    answer = scripted or echo(request.last_text, request.images)
    exchange = FakeExchange(request, _with_ids(answer, seen.provider, request_id), request_id, now_ms)
    kept = endpoint.remember(exchange) if endpoint.remember else None
    if kept is not None:
        script.remember(*kept)
    return exchange


def digest(body: Payload) -> str:
    """Hash the body, for use in ids: equal requests have equal ids."""
    raw = json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode()
    return hashlib.sha256(raw).hexdigest()[:_ID_DIGITS]


def _with_ids(answer: FakeAnswer, provider: str, request_id: str) -> FakeAnswer:
    prefix = "toolu_" if provider == "anthropic" else "call_"
    calls = tuple(
        call if call.id else call.model_copy(update={"id": f"{prefix}{request_id}{number}"})
        for number, call in enumerate(answer.calls)
    )
    return answer.model_copy(update={"calls": calls})
