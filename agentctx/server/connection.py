"""One HTTP/1.1 connection: who is there, and what it may cost in time and bytes.

uvicorn has no limit for heads and bodies and no deadline for a request that does not come to its end. Both
are kept here, below ASGI, where a refused request costs nothing yet.

What the peer is sending:

    IDLE ──any byte──> HEAD ──blank line──> BODY ──last byte──> IDLE

A connection starts in HEAD: silence at its beginning ends like half a head. A deadline runs only while the
peer is the one we wait for, never while a reply is being made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum, auto
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from agentctx.access.quotas import Quotas
from agentctx.config.schema import ServerSettings
from agentctx.errors import AgentctxError, InvalidInput, RateLimited, RequestTimeout, TooLarge
from agentctx.server.errors import STATUS, error_json, retry_after
from agentctx.server.peer import peer_of
from agentctx.server.request_context import new_request_id
from agentctx.wire import REQUEST_ID_HEADER

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

LINGER_S = 1.0
"""How long a closing connection may take to read what was written to it."""

MAX_WAITING = 8
"""Requests of one connection that wait while another is served. One read can hold thousands of heads."""

_VERSIONS = frozenset({"1.0", "1.1"})

_FRAMING = 2
"""Bytes on the wire per byte of the largest body: chunks and trailers are bytes as well."""


class HeadTooLarge(TooLarge):
    """The request line and the headers are over `max_header_bytes`."""


class _Phase(Enum):
    HEAD = auto()
    BODY = auto()
    IDLE = auto()


def protocol_class(settings: ServerSettings, quotas: Quotas | None = None) -> type[PeerProtocol]:
    """The class for `uvicorn.Config(http=…)`, with these limits. `quotas` bounds the connections."""
    return type("LimitedPeerProtocol", (PeerProtocol,), {"settings": settings, "quotas": quotas})


def check_head(
    url: bytes, headers: Sequence[tuple[bytes, bytes]], http_version: str, settings: ServerSettings
) -> None:
    """Raises `HeadTooLarge`, `TooLarge` for the announced body, or `InvalidInput` for another version of HTTP
    or the wrong number of Host headers. Names are in lower case; two conflicting lengths are the parser's to
    refuse.
    """
    if http_version not in _VERSIONS:  # the parser takes a request line without one for HTTP/0.9
        raise InvalidInput("Only HTTP/1.1 is spoken here.", hint="Use an HTTP client library, or curl.")
    if len(url) + sum(len(name) + len(value) + 4 for name, value in headers) > settings.max_header_bytes:
        raise _head_too_large(settings)
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (hosts == 0 and http_version != "1.0"):
        raise InvalidInput("The request needs exactly one Host header.", hint="Any name will do.")
    length = next((value for name, value in headers if name == b"content-length"), b"0")
    if int(length) > (most := largest_body(url, settings)):
        raise _body_too_large(most)


def largest_body(url: bytes, settings: ServerSettings) -> int:
    """Bytes of the largest body a request to this target may have: prompts hold pictures."""
    return settings.max_proxy_body_bytes if url.startswith(b"/proxy/") else settings.max_body_bytes


class PeerProtocol(HttpToolsProtocol):
    """uvicorn's protocol with the peer's credentials in every request's state (`peer`) and with limits.

    `cut` in that state ends a reply that cannot be completed.

    Over a limit or a deadline the peer gets the error body if no reply has begun, and the connection closes.
    """

    settings: ClassVar[ServerSettings]
    quotas: ClassVar[Quotas | None] = None

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.closed = asyncio.Event()
        self._phase = _Phase.HEAD
        self._phase_bytes = 0
        """Bytes that came in this phase, without those of the read in which it began."""
        self._body_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._drain_deadline: asyncio.TimerHandle | None = None
        self._refusal: bytes | None = None
        self._running: RequestResponseCycle | None = None
        self._counted_uid: int | None = None

    # The transport's callbacks.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        peer = peer_of(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, "peer": peer, "cut": self.cut}
        try:
            if self.quotas is not None and peer is not None:
                self._counted_uid = peer.uid
                self.quotas.connect(peer.uid)
        except RateLimited as error:
            self._refuse(error)
        else:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_keepalive_if_required()
        self._disarm()
        self._disconnect_requests()
        self.resume_writing()
        super().connection_lost(exc)
        if self.quotas is not None and self._counted_uid is not None:
            self.quotas.disconnect(self._counted_uid)
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return  # read and thrown away, so that the peer gets to our reply
        self._unset_keepalive_if_required()
        if self._phase is _Phase.IDLE:
            self._enter(_Phase.HEAD)
        self._phase_bytes += len(data)
        try:
            self.parser.feed_data(data)
            self._check_phase_bytes()
        except AgentctxError as error:
            self._refuse(error)
        except httptools.HttpParserError as error:
            self._refuse(_reason(error))
        else:
            self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._drain_deadline = self.loop.call_later(self.settings.body_timeout_s, self.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._drain_deadline is not None:
            self._drain_deadline.cancel()
            self._drain_deadline = None

    # The parser's callbacks. What they raise ends in `data_received`.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._phase is not _Phase.HEAD:
            self._enter(_Phase.HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is _Phase.HEAD:  # else a trailer: the request is decided by its head
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        check_head(self.url, self.headers, self.parser.get_http_version(), self.settings)
        if self.parser.should_upgrade():
            raise InvalidInput("Only HTTP/1.1 is spoken here.", hint="Send no Upgrade header.")
        if len(self.pipeline) >= MAX_WAITING:
            raise InvalidInput(
                f"More than {MAX_WAITING} requests wait for their replies.", hint="Read replies as they come."
            )
        self._enter(_Phase.BODY)
        self._body_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > (most := largest_body(self.url, self.settings)):
            raise _body_too_large(most)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._enter(_Phase.IDLE)
        super().on_message_complete()

    # uvicorn's callbacks.

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle  # `self.cycle` is the newest, which may still wait in the pipeline
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._close()
        elif self._refusal is not None:
            if not self._is_answering():
                self._send_refusal(self._refusal)
        else:
            if self._phase is not _Phase.IDLE:
                self._unset_keepalive_if_required()
            self._watch()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            self._close()

    # Deadlines and limits.

    def _enter(self, phase: _Phase) -> None:
        self._disarm()
        self._phase = phase
        self._phase_bytes = 0

    def _watch(self) -> None:
        if self._deadline is not None or self._refusal is not None or self.transport.is_closing():
            return
        if (seconds := self._patience_s()) is not None:
            self._deadline = self.loop.call_later(seconds, self._on_deadline)

    def _patience_s(self) -> float | None:
        """How long to wait for the peer's next bytes; None while it waits for us."""
        if self._phase is _Phase.BODY:
            return None if self.pipeline else self.settings.body_timeout_s
        if self._is_answering():
            return None
        if self._phase is _Phase.HEAD:
            return self.settings.header_timeout_s
        return None if self.timeout_keep_alive_task else self.settings.keep_alive_s

    def _is_answering(self) -> bool:
        return self._running is not None and not self._running.response_complete

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        self._deadline = None
        if self._phase is _Phase.IDLE:
            self._close()
        elif self._phase is _Phase.HEAD:
            self._refuse(_too_slow("head", self.settings.header_timeout_s))
        elif self.flow.read_paused:
            self._watch()  # the handler is the slow one
        else:
            self._refuse(_too_slow("body", self.settings.body_timeout_s))

    def _check_phase_bytes(self) -> None:
        if self._phase is _Phase.HEAD and self._phase_bytes > self.settings.max_header_bytes:
            raise _head_too_large(self.settings)
        if self._phase is _Phase.BODY:
            most = largest_body(self.url, self.settings)
            if self._phase_bytes > _FRAMING * most:
                raise _body_too_large(most)

    # Endings.

    def _refuse(self, error: AgentctxError) -> None:
        """Take nothing more; answer with the error when the requests before this one have their replies."""
        self._disarm()
        self._refusal = _refusal(error)
        if self._phase is not _Phase.BODY:
            if self._is_answering():
                return
        elif self.pipeline:
            self.pipeline.popleft()  # the refused request itself, which waited for its turn
            return
        elif self.cycle.response_started:
            self._close()
            return
        else:
            self._disconnect_requests()
        self._send_refusal(self._refusal)

    def _send_refusal(self, refusal: bytes) -> None:
        if self.transport.is_closing():
            return
        # Closing with unread bytes in the socket would reset the connection and lose the reply, so
        # only our side is closed and the rest is read until the peer closes or the time is up.
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        self.transport.write(refusal)
        self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGER_S, self.abort)

    def _disconnect_requests(self) -> None:
        """For their handlers the peer has gone. uvicorn tells only the newest, and the others then write
        to a transport that is no more.
        """
        for cycle in (self._running, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def cut(self) -> None:
        """Close when what was written has been sent: the peer sees that its reply is not whole."""
        self._disconnect_requests()
        self._close()

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self._disconnect_requests()
        self.transport.abort()

    def _close(self) -> None:
        self._disarm()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._deadline = self.loop.call_later(LINGER_S, self.abort)


def _refusal(error: AgentctxError) -> bytes:
    status = HTTPStatus(431 if isinstance(error, HeadTooLarge) else STATUS[error.code])
    request_id = new_request_id()
    body = error_json(error, request_id)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "content-type: application/json\r\n"
        f"content-length: {len(body)}\r\n"
        f"{REQUEST_ID_HEADER.lower()}: {request_id}\r\n"
        + "".join(f"{name.lower()}: {value}\r\n" for name, value in retry_after(error).items())
        + "connection: close\r\n\r\n"
    )
    return head.encode() + body


def _reason(error: httptools.HttpParserError) -> AgentctxError:
    """The parser wraps what a callback raised. Anything but ours is a head that uvicorn could not read."""
    if isinstance(error.__context__, AgentctxError):
        return error.__context__
    return InvalidInput("The request is not valid HTTP/1.1.", hint="Use an HTTP client library, or curl.")


def _head_too_large(settings: ServerSettings) -> HeadTooLarge:
    return HeadTooLarge(
        f"The request head is larger than {settings.max_header_bytes} bytes.",
        hint="Send long texts in the body; the limit is server.max_header_bytes.",
    )


def _body_too_large(most: int) -> TooLarge:
    return TooLarge(
        f"The request body is larger than {most} bytes.",
        hint="Send several requests; the limits are server.max_body_bytes and server.max_proxy_body_bytes.",
    )


def _too_slow(part: str, seconds: float) -> RequestTimeout:
    return RequestTimeout(
        f"The request {part} was not complete within {seconds:g} s.", hint="Send the request in one go."
    )
