"""The proxy as an ASGI application: read the request, add context, stream the reply back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Final, Protocol

import structlog
from starlette.types import Message, Receive, Scope, Send

from agentctx.errors import AgentctxError, NotFound, RequestFailed, UpstreamFailed
from agentctx.llm.dialects.base import Dialect
from agentctx.llm.injector import REFUSED, TOO_LARGE, Injector, PreparedCall
from agentctx.llm.proxy import runs
from agentctx.llm.proxy.body import JsonBody, is_sealed
from agentctx.llm.proxy.headers import INJECTION_HEADER, LEFT_OUT_HEADER, readable, returned
from agentctx.llm.proxy.upstream import UpstreamRequest, Upstreams
from agentctx.llm.proxy.vendors import VENDORS, Headers, Vendor
from agentctx.llm.scope import Scope as CallScope
from agentctx.llm.scope import scope_of
from agentctx.service.refusals import REFUSING, Refusals

_log = structlog.get_logger("agentctx.proxy")

PREFIX = "/proxy/"
BAD_GATEWAY: Final = 502
_LEFT_OUT: Final = {REFUSED: "refused before", TOO_LARGE: "too large"}


class ReplyListener(Protocol):
    """Listens to the reply of a call while it is passed on. Must not raise; it is never awaited."""

    def feed(self, data: bytes) -> None:
        """Receive bytes of the body, as the vendor sent them."""

    def end(self, *, is_whole: bool) -> None:
        """Receive the end of the reply."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call being passed on, as a listener sees it."""

    peer: Any
    scope: CallScope
    dialect: Dialect
    prepared: PreparedCall[bytes]
    status: int
    headers: Mapping[str, str]
    """Headers of the reply, with lower-case names."""


ListenerFactory = Callable[[Exchange], ReplyListener | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """An incoming request and its prepared form."""

    vendor: Vendor
    request: UpstreamRequest
    """As it goes out."""
    original: bytes
    """The body as it came."""
    peer: Any
    scope: CallScope
    dialect: Dialect | None = None
    prepared: PreparedCall[bytes] | None = None
    refusal: int | None = None
    """The status with which the vendor refused the call with its context, which goes without it now."""

    @property
    def is_changed(self) -> bool:
        return self.request.body is not self.original

    @property
    def model(self) -> str:
        path = self.request.target.partition(b"?")[0].decode("latin-1")
        return self.vendor.model_of(path) or (self.prepared.model if self.prepared else "")


@dataclass(repr=False)
class Proxy:
    """Serves `/proxy/{vendor}/…`.

    If anything is wrong with the context, the call goes out unchanged: bytes without an injection are not
    touched. If the vendor refuses a changed body, the call goes once more as it came. If the client
    disconnects, the exchange with the vendor ends. Replies, including errors, arrive as they were sent, with
    two headers added: the id of the injection's receipt, and why a refused context was left out.
    """

    upstreams: Upstreams
    """The connections to the vendors."""
    injector_of: Callable[[Any, Callable[[str], bool]], Injector] | None
    """Returns the injector for a peer; None disables injection."""
    refusals: Refusals = field(default_factory=Refusals)
    """What vendors refused."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """The operator's keys by vendor, for requests without one."""
    note_refused: Callable[[str], Awaitable[None]] | None = None
    """Records in a receipt that the vendor refused the call with it."""
    own_runs: runs.Runs | None = None
    """The runs of programs with an upstream of their own."""
    listen: ListenerFactory = lambda _: None
    """Returns a listener to each reply of a call that could take context."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope.get("state", {})
        peer, run = state.get("peer"), state.get("run")
        if self.own_runs is not None and scope["path"] == runs.PATH and scope["method"] == "POST":
            scope["route"] = SimpleNamespace(path=runs.PATH)
            token = self.own_runs.begin(peer, await _read(receive))
            await _Reply(send).answer(200, token.encode(), b"text/plain")
            return
        vendor, target = _target(scope)
        # Requests are counted under this route, whatever the vendor's path is.
        scope["route"] = SimpleNamespace(path=f"{PREFIX}{vendor.name}")
        is_own = run is not None and run.vendor == vendor.name
        request = UpstreamRequest(
            vendor=vendor.name,
            base_url=run.base_url if is_own else self.upstreams.base_url(vendor.name),
            method=scope["method"],
            target=target,
            # The operator's key is for the operator's addresses.
            headers=scope["headers"] if is_own else self._with_key(vendor, scope["headers"]),
            body=await _read(receive),
        )
        call = await self._prepared(vendor, request, scope["headers"], peer)
        reply = _Reply(send)
        try:
            await _until_disconnected(self._exchange(call, reply.send), receive)
        except UpstreamFailed as error:
            _log.warning("upstream_failed", vendor=vendor.name, reason=error.message)
            if reply.has_started:
                raise  # the status has been sent: if the vendor's reply is cut short, this one must be too
            await reply.answer(BAD_GATEWAY, refusal(vendor.name, error))

    def _with_key(self, vendor: Vendor, headers: Headers) -> Headers:
        key = self.keys.get(vendor.name)
        return [*headers, vendor.key_line(key)] if key and not vendor.has_key(headers) else headers

    async def _prepared(self, vendor: Vendor, request: UpstreamRequest, headers: Headers, peer: Any) -> _Call:
        scope = scope_of(readable(headers))
        call = _Call(vendor=vendor, request=request, original=request.body, peer=peer, scope=scope)
        path = request.target.partition(b"?")[0].decode("latin-1")
        dialect = vendor.dialect_of(request.method, path)
        if dialect is None or self.injector_of is None or is_sealed(headers):
            return call
        in_path = vendor.model_of(path)
        injector = self.injector_of(
            peer, lambda model: self.refusals.rests(request.base_url, in_path or model)
        )
        prepared = await injector.prepare_call(JsonBody(dialect, request.body), call.scope)
        outgoing = replace(request, body=prepared.body)
        return replace(call, request=outgoing, dialect=dialect, prepared=prepared)

    async def _exchange(self, call: _Call, send: Send) -> None:
        if (status := await self._forward(call, send)) is not None:
            _log.warning("call_refused_with_context", vendor=call.vendor.name, status=status)
            outgoing = replace(call.request, body=call.original)
            await self._forward(replace(call, request=outgoing, refusal=status), send)

    async def _forward(self, call: _Call, send: Send) -> int | None:
        """Pass the reply on. If the vendor refuses a changed body, return the status instead."""
        async with self.upstreams.send(call.request) as reply:
            if call.is_changed and reply.status_code in REFUSING:
                return reply.status_code
            own_headers = _own_headers(call)
            call = await self._note_outcome(call, is_taken=reply.is_success)
            headers = returned(reply.status_code, reply.headers.raw)
            listener = self._listener(call, reply.status_code, readable(headers))
            head = [*headers, *own_headers]
            await send({"type": "http.response.start", "status": reply.status_code, "headers": head})
            is_whole = False
            try:
                async with aclosing(self.upstreams.pieces(call.vendor.name, reply)) as pieces:
                    async for data in pieces:
                        if listener is not None:
                            listener.feed(data)
                        await send({"type": "http.response.body", "body": data, "more_body": True})
                is_whole = True
            finally:
                if listener is not None:
                    listener.end(is_whole=is_whole)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    async def _note_outcome(self, call: _Call, *, is_taken: bool) -> _Call:
        """Learn from the status of a call that had context, or whose context was refused."""
        if call.prepared is None or self.injector_of is None or not (call.is_changed or call.refusal):
            return call
        upstream, model = call.request.base_url, call.model
        if call.refusal is None:
            if is_taken:
                self.refusals.note_taken(upstream, model)
            return call
        if (context := call.prepared.context) and context.injection_id and self.note_refused:
            await self.note_refused(context.injection_id)
        if not is_taken:
            return call
        self.refusals.note_refused(upstream, model, call.refusal)
        injector = self.injector_of(call.peer, lambda _: False)
        return replace(call, prepared=injector.refused(call.prepared, call.original))

    def _listener(self, call: _Call, status: int, headers: Mapping[str, str]) -> ReplyListener | None:
        if call.dialect is None or call.prepared is None:
            return None
        return self.listen(Exchange(call.peer, call.scope, call.dialect, call.prepared, status, headers))


class _Reply:
    """The reply to the client."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_started = False

    async def send(self, message: Message) -> None:
        self.has_started = True
        await self._send(message)

    async def answer(self, status: int, body: bytes, kind: bytes = b"application/json") -> None:
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def _target(scope: Scope) -> tuple[Vendor, bytes]:
    """Return the vendor, and path and query as sent.

    Raises:
        NotFound: the vendor is unknown.
    """
    raw = scope.get("raw_path") or scope["path"].encode()
    name, slash, path = raw.removeprefix(PREFIX.encode()).partition(b"/")
    vendor = VENDORS.get(name.decode("latin-1"))
    if vendor is None:
        raise NotFound("Unknown proxy path.", hint=f"Use one of {', '.join(PREFIX + v for v in VENDORS)}.")
    query = scope["query_string"]
    return vendor, slash + path + (b"?" + query if query else b"")


async def _read(receive: Receive) -> bytes:
    """Read the body of the request. Size and time are limited by the server."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestFailed("The connection closed before the request was complete.")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _own_headers(call: _Call) -> list[tuple[bytes, bytes]]:
    prepared = call.prepared
    if prepared is None:
        return []
    lines = {
        INJECTION_HEADER: prepared.context.injection_id if prepared.context else None,
        LEFT_OUT_HEADER: f"refused {call.refusal}" if call.refusal else _LEFT_OUT.get(prepared.outcome),
    }
    return [(name.lower().encode(), value.encode()) for name, value in lines.items() if value]


async def _until_disconnected(work: Any, receive: Receive) -> None:
    """Run the work, cancelling it if the client disconnects."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watching.cancel()
        if not working.done():
            working.cancel()
        await asyncio.wait({working, watching})
    if not working.cancelled():
        working.result()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def refusal(vendor: str, error: AgentctxError) -> bytes:
    """Return the body of a 502, whose message the vendor's SDK shows."""
    text = f"{error.message} {error.hint}".strip()
    forms: dict[str, Any] = {
        "openai": {"error": {"message": text, "type": "server_error", "param": None, "code": error.code}},
        "anthropic": {"type": "error", "error": {"type": "api_error", "message": text}},
        "gemini": {"error": {"code": BAD_GATEWAY, "message": text, "status": "UNAVAILABLE"}},
        "ollama": {"error": text},
    }
    return json.dumps(forms[vendor], ensure_ascii=False).encode()
