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

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from agentctx.fake_provider.chat import Chat, digest
from agentctx.fake_provider.control import REDIRECT_TARGET, control_routes
from agentctx.fake_provider.delivery import FakeReply, ReplyDelivery
from agentctx.fake_provider.dialects.base import (
    ChatEndpoint,
    EmbedEndpoint,
    Endpoint,
    FakeDialect,
    PlainEndpoint,
    RerankEndpoint,
    bearer_key,
)
from agentctx.fake_provider.dialects.catalog import ALL_DIALECTS
from agentctx.fake_provider.dialects.google import find_key
from agentctx.fake_provider.faults import HttpFault, hint_headers
from agentctx.fake_provider.gate import ReplyGate
from agentctx.fake_provider.requests import FakeRefusal, Payload, Rejected, require
from agentctx.fake_provider.rows import Row, corrupt
from agentctx.fake_provider.script import RecordedRequest, Script
from agentctx.fake_provider.vectors import embed, rank

_TEMPORARY_REDIRECT = 307
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class FakeProviderApp:
    """The ASGI application, in `asgi`.

    Args:
        script: decides which faults happen and which answers are given.
        gate: holds slow replies.
        chat: answers chats.
        dimension: length of every model's vectors; None uses the lengths of the real models.
        key: the only key that is accepted; None accepts any.
        clock: milliseconds since the epoch, for dates in replies.
    """

    def __init__(
        self,
        script: Script,
        gate: ReplyGate,
        chat: Chat,
        *,
        dimension: int | None,
        key: str | None,
        clock: Callable[[], int],
    ) -> None:
        self._script = script
        self._gate = gate
        self._chat = chat
        self._dimension = dimension
        self._key = key
        self._clock = clock
        own = control_routes(script, gate, chat, record_of)
        self.asgi = Starlette(routes=[*self._provider_routes(), *own, *self._other_routes()])

    def _provider_routes(self) -> list[Route]:
        return [
            Route(
                prefix + endpoint.path, partial(self._provide, dialect, endpoint), methods=[_method(endpoint)]
            )
            for dialect in ALL_DIALECTS.values()
            for endpoint in dialect.endpoints
            for prefix in dialect.prefixes
        ]

    def _other_routes(self) -> list[Route]:
        """The paths that no endpoint serves; without a prefix, they count as OpenAI's."""
        places = {prefix: dialect for dialect in ALL_DIALECTS.values() for prefix in dialect.prefixes}
        places[""] = ALL_DIALECTS["openai"]
        return [
            Route(prefix + "/{rest:path}", partial(self._provide, places[prefix], None), methods=_METHODS)
            for prefix in sorted(places, key=len, reverse=True)
        ]

    async def _provide(
        self, dialect: FakeDialect, endpoint: Endpoint | None, request: Request
    ) -> ReplyDelivery | Response:
        try:
            seen = record_of(dialect.provider, request, await request.body())
        except ClientDisconnect:
            return Response()  # no client reads it
        fault = self._script.take(seen)
        deliver = partial(ReplyDelivery, gate=self._gate, on_abort=partial(self._script.abort, seen))
        if fault and fault.kind == "status":
            return deliver(self._refused(dialect, fault), kind=None)
        if fault and fault.kind == "redirect":
            return _redirect(request, fault)
        try:
            self._require_key(dialect, request)
            reply = await self._answer(dialect, endpoint, request, seen, fault)
        except Rejected as refused:
            reply = _as_json(dialect.refusal(refused.refusal), status=refused.refusal.status)
        headers = {dialect.request_id_header: _request_id(seen), **(fault.headers if fault else {})}
        return deliver(_with_headers(reply, headers), kind=fault.kind if fault else None)

    def _refused(self, dialect: FakeDialect, fault: HttpFault) -> FakeReply:
        headers = {**hint_headers(fault, now_ms=self._clock()), **fault.headers}
        body = dialect.refusal(_refusal_of(fault))
        return _with_headers(_as_json(body, status=fault.status or 500), headers)

    def _require_key(self, dialect: FakeDialect, request: Request) -> None:
        if dialect.keys is None:
            return
        key = dialect.keys.find(request)
        if not key:
            raise Rejected(dialect.keys.missing)
        if self._key is not None and key != self._key:
            raise Rejected(dialect.keys.wrong)

    async def _answer(
        self,
        dialect: FakeDialect,
        endpoint: Endpoint | None,
        request: Request,
        seen: RecordedRequest,
        fault: HttpFault | None,
    ) -> FakeReply:
        if endpoint is None:
            raise Rejected(FakeRefusal(404, f"Unknown request URL: {seen.method} {seen.path}."))
        if isinstance(endpoint, ChatEndpoint | PlainEndpoint):
            _require_headers(endpoint, request)
        if isinstance(endpoint, PlainEndpoint) and endpoint.method == "GET":
            return _as_json(endpoint.write({}))
        body = _object(seen.payload)
        if isinstance(endpoint, PlainEndpoint):
            return _as_json(endpoint.write(body))
        if isinstance(endpoint, ChatEndpoint):
            return self._chat_reply(dialect, endpoint, request, seen, body, fault)
        model = str(request.path_params.get("model", ""))
        return _as_json(await self._calculate(endpoint, body, model, fault))

    async def _calculate(
        self, endpoint: EmbedEndpoint | RerankEndpoint, body: Payload, model: str, fault: HttpFault | None
    ) -> Payload:
        if isinstance(endpoint, EmbedEndpoint):
            embed_request = endpoint.read(body, model)
            return endpoint.write(
                embed_request, _corrupted(await embed(embed_request, self._dimension), fault)
            )
        rerank_request = endpoint.read(body, model)
        return endpoint.write(rerank_request, _corrupted(rank(rerank_request), fault))

    def _chat_reply(
        self,
        dialect: FakeDialect,
        endpoint: ChatEndpoint,
        request: Request,
        seen: RecordedRequest,
        body: Payload,
        fault: HttpFault | None,
    ) -> FakeReply:
        exchange = self._chat.exchange(
            dialect.provider,
            endpoint,
            body,
            model=str(request.path_params.get("model", "")),
            query=dict(request.query_params),
            choose=partial(self._script.answer, seen),
        )
        if not exchange.request.is_stream:
            return _as_json(endpoint.write(exchange))
        return FakeReply(
            pieces=tuple(endpoint.stream(exchange)),
            content_type=endpoint.stream_type if exchange.request.is_sse else "application/json",
            error_piece=endpoint.stream_error(dialect.refusal(_refusal_of(fault))) if fault else b"",
        )


def record_of(provider: str, request: Request, body: bytes) -> RecordedRequest:
    """The request as it is recorded."""
    return RecordedRequest(
        provider=provider,
        path=request.url.path,
        has_key=bool(_key_of(request)),
        payload=_parsed(body),
        method=request.method,
        query=request.url.query,
        headers=tuple((name.lower(), value) for name, value in request.headers.items()),
        body=body,
    )


def _method(endpoint: Endpoint) -> str:
    return endpoint.method if isinstance(endpoint, PlainEndpoint) else "POST"


def _require_headers(endpoint: ChatEndpoint | PlainEndpoint, request: Request) -> None:
    for name in endpoint.required_headers:
        require(request.headers.get(name), f"{name}: header is required")


def _refusal_of(fault: HttpFault) -> FakeRefusal:
    retry_info_s = fault.after_s if fault.hint == "retry_info" else None
    return FakeRefusal(fault.status or 500, fault.message, fault.code, retry_info_s=retry_info_s)


def _corrupted(rows: list[Row], fault: HttpFault | None) -> list[Row]:
    return corrupt(fault.kind, rows) if fault and rows else rows


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
    body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return FakeReply(status=status, body=body)


def _with_headers(reply: FakeReply, headers: Mapping[str, str]) -> FakeReply:
    return replace(reply, headers=headers)


def _request_id(seen: RecordedRequest) -> str:
    return f"req_{digest({'number': seen.number, 'path': seen.path})}"


def _key_of(request: Request) -> str:
    headers = request.headers
    found = bearer_key(request) or find_key(request)
    return found or headers.get("x-api-key", "") or headers.get("authorization", "")
