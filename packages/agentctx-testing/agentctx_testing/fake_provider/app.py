"""The application: the providers' endpoints, and the control endpoints under `/__`.

POST /__script    {"faults": [{"kind": "status", "status": 429, "request": 1}]}  replace the faults
                  {"answers": [{"text": "…", "calls": [{"name": "f"}], "contains": "…"}]}  replace the answers
GET  /__requests  requests received since the last reset
POST /__release   release slow replies
GET  /__held      answered once ?count=1 slow replies are waiting
GET  /__aborted   answered once the clients of ?count=1 requests have disconnected
POST /__reset     clear the faults, answers, recorded requests and stored conversations; release slow replies
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from agentctx_testing.fake_provider.answers import FakeAnswer, echo
from agentctx_testing.fake_provider.control import REDIRECT_TARGET, control_routes
from agentctx_testing.fake_provider.delivery import FakeReply, ReplyDelivery
from agentctx_testing.fake_provider.dialects.anthropic import ANTHROPIC
from agentctx_testing.fake_provider.dialects.base import (
    ChatEndpoint,
    Endpoint,
    FakeDialect,
    PlainEndpoint,
    RowEndpoint,
    bearer_key,
)
from agentctx_testing.fake_provider.dialects.cohere import COHERE
from agentctx_testing.fake_provider.dialects.google import GOOGLE, find_key
from agentctx_testing.fake_provider.dialects.ollama import OLLAMA
from agentctx_testing.fake_provider.dialects.openai import COMPATIBLE, OPENAI
from agentctx_testing.fake_provider.dialects.voyage import VOYAGE
from agentctx_testing.fake_provider.exchange import FakeExchange, compact
from agentctx_testing.fake_provider.faults import HttpFault, hint_headers
from agentctx_testing.fake_provider.requests import FakeRefusal, Payload, RefusalError, require
from agentctx_testing.fake_provider.script import RecordedRequest, Script
from agentctx_testing.fake_provider.vectors import corrupt

DIALECTS: Final[Mapping[str, FakeDialect]] = {
    dialect.provider: dialect for dialect in (OPENAI, COMPATIBLE, GOOGLE, OLLAMA, COHERE, VOYAGE)
}
"""The providers that embed or rerank."""
ALL_DIALECTS: Final[Mapping[str, FakeDialect]] = {**DIALECTS, ANTHROPIC.provider: ANTHROPIC}

_TEMPORARY_REDIRECT = 307
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_ID_DIGITS = 24


class FakeProviderApp:
    """The ASGI application, in `asgi`.

    Args:
        script: decides which faults happen and which answers are given.
        dimension: length of every model's vectors; None uses the lengths of the real models.
        key: the only key that is accepted; None accepts any.
        clock: milliseconds since the epoch, for dates in replies.
    """

    def __init__(
        self, script: Script, *, dimension: int | None, key: str | None, clock: Callable[[], int]
    ) -> None:
        self._script = script
        self._dimension = dimension
        self._key = key
        self._clock = clock
        own = control_routes(script, record_of)
        self.asgi = Starlette(routes=[*self._provider_routes(), *own, *self._other_routes()])

    def _provider_routes(self) -> list[Route]:
        return [
            Route(
                prefix + endpoint.path, partial(self._provide, dialect, endpoint), methods=[endpoint.method]
            )
            for dialect in ALL_DIALECTS.values()
            for endpoint in dialect.endpoints
            for prefix in dialect.prefixes
        ]

    def _other_routes(self) -> list[Route]:
        """The paths that no endpoint serves; without a prefix, they count as OpenAI's."""
        dialects = {prefix: dialect for dialect in ALL_DIALECTS.values() for prefix in dialect.prefixes}
        dialects[""] = OPENAI
        return [
            Route(prefix + "/{rest:path}", partial(self._provide, dialects[prefix], None), methods=_METHODS)
            for prefix in sorted(dialects, key=len, reverse=True)
        ]

    async def _provide(
        self, dialect: FakeDialect, endpoint: Endpoint | None, request: Request
    ) -> ReplyDelivery | Response:
        try:
            seen = record_of(request, await request.body(), dialect.provider)
        except ClientDisconnect:
            return Response()  # no client reads it
        fault = self._script.take(seen)
        on_abort = partial(self._script.abort, seen)
        deliver = partial(ReplyDelivery, gate=self._script.gate, on_abort=on_abort)
        if fault and fault.kind == "status":
            return deliver(self._refused(dialect, fault), kind=None)
        if fault and fault.kind == "redirect":
            return _redirect(request, fault)
        try:
            self._require_key(dialect, request)
            reply = await self._answer(dialect, endpoint, request, seen, fault)
        except RefusalError as refused:
            reply = _as_json(dialect.refusal(refused.refusal), status=refused.refusal.status)
        request_id = f"req_{_digest({'number': seen.number, 'path': seen.path})}"
        headers = {dialect.request_id_header: request_id, **(fault.headers if fault else {})}
        return deliver(replace(reply, headers=headers), kind=fault.kind if fault else None)

    def _refused(self, dialect: FakeDialect, fault: HttpFault) -> FakeReply:
        headers = {**hint_headers(fault, now_ms=self._clock()), **fault.headers}
        reply = _as_json(dialect.refusal(_refusal_of(fault)), status=fault.status or 500)
        return replace(reply, headers=headers)

    def _require_key(self, dialect: FakeDialect, request: Request) -> None:
        if dialect.keys is None:
            return
        key = dialect.keys.find(request)
        if not key:
            raise RefusalError(dialect.keys.missing)
        if self._key is not None and key != self._key:
            raise RefusalError(dialect.keys.wrong)

    async def _answer(
        self,
        dialect: FakeDialect,
        endpoint: Endpoint | None,
        request: Request,
        seen: RecordedRequest,
        fault: HttpFault | None,
    ) -> FakeReply:
        if endpoint is None:
            raise RefusalError(FakeRefusal(404, f"Unknown request URL: {seen.method} {seen.path}."))
        for name in endpoint.required_headers:
            require(request.headers.get(name), f"{name}: header is required")
        body = _object(seen.payload) if endpoint.method == "POST" else {}
        model = str(request.path_params.get("model", ""))
        if isinstance(endpoint, PlainEndpoint):
            return _as_json(endpoint.write(body))
        if isinstance(endpoint, RowEndpoint):
            asked = endpoint.read(body, model)
            rows = await endpoint.rows(asked, self._dimension)
            return _as_json(endpoint.write(asked, corrupt(fault.kind, rows) if fault and rows else rows))
        query, now_ms = request.query_params, self._clock()
        exchange = _answered(self._script, seen, endpoint, body, model=model, query=query, now_ms=now_ms)
        return _chat_reply(dialect, endpoint, exchange, fault)


def _answered(
    script: Script,
    seen: RecordedRequest,
    endpoint: ChatEndpoint,
    body: Payload,
    *,
    model: str,
    query: Mapping[str, str],
    now_ms: int,
) -> FakeExchange:
    """Return a chat request with its answer: the scripted one if it matches, else an echo."""
    whole = endpoint.recall(body, script.conversations) if endpoint.recall else body
    request = endpoint.read(whole, model, query)
    request_id = _digest(body)
    scripted = FakeAnswer() if request.is_silent else script.answer(seen)
    answer = scripted or echo(request.last_text, request.images)
    exchange = FakeExchange(request, _with_ids(answer, seen.provider, request_id), request_id, now_ms)
    kept = endpoint.remember(exchange) if endpoint.remember else None
    if kept is not None:
        script.remember(*kept)
    return exchange


def _with_ids(answer: FakeAnswer, provider: str, request_id: str) -> FakeAnswer:
    prefix = "toolu_" if provider == "anthropic" else "call_"
    calls = tuple(
        call if call.id else call.model_copy(update={"id": f"{prefix}{request_id}{number}"})
        for number, call in enumerate(answer.calls)
    )
    return answer.model_copy(update={"calls": calls})


def _chat_reply(
    dialect: FakeDialect, endpoint: ChatEndpoint, exchange: FakeExchange, fault: HttpFault | None
) -> FakeReply:
    if not exchange.request.is_stream:
        return _as_json(endpoint.write(exchange))
    return FakeReply(
        pieces=tuple(endpoint.stream(exchange)),
        content_type=endpoint.stream_type if exchange.request.is_sse else "application/json",
        error_piece=endpoint.stream_error(dialect.refusal(_refusal_of(fault))) if fault else b"",
    )


def record_of(request: Request, body: bytes, provider: str) -> RecordedRequest:
    """Return the request as it is recorded."""
    headers = request.headers
    bearer_or_google = bearer_key(request) or find_key(request)
    return RecordedRequest(
        provider=provider,
        path=request.url.path,
        has_key=bool(bearer_or_google or headers.get("x-api-key") or headers.get("authorization")),
        payload=_parsed(body),
        method=request.method,
        query=request.url.query,
        headers=tuple((name.lower(), value) for name, value in headers.items()),
        body=body,
    )


def _refusal_of(fault: HttpFault) -> FakeRefusal:
    retry_info_s = fault.after_s if fault.hint == "retry_info" else None
    return FakeRefusal(fault.status or 500, fault.message, fault.code, retry_info_s=retry_info_s)


def _redirect(request: Request, fault: HttpFault) -> Response:
    location = fault.location or f"{str(request.base_url).rstrip('/')}{REDIRECT_TARGET}{request.url.path}"
    return Response(
        status_code=fault.status or _TEMPORARY_REDIRECT, headers={**fault.headers, "location": location}
    )


def _object(payload: object) -> Payload:
    require(isinstance(payload, dict), "We could not parse the JSON body of your request.")
    return payload if isinstance(payload, dict) else {}


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _as_json(payload: Mapping[str, Any], *, status: int = 200) -> FakeReply:
    return FakeReply(status=status, body=compact(payload).encode(errors="replace"))


def _digest(body: Payload) -> str:
    """Hash the body, for use in ids: equal requests have equal ids."""
    raw = json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode()
    return hashlib.sha256(raw).hexdigest()[:_ID_DIGITS]
