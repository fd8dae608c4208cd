"""One HTTP/1.1 connection: identifies the peer and limits the time and bytes of its requests.

uvicorn limits neither heads nor bodies, and has no deadline for an incomplete request. Both are enforced
here, below ASGI, where refusing a request is cheap.

What the peer is sending:

    IDLE ──any byte──> HEAD ──blank line──> BODY ──last byte──> IDLE

A connection starts in HEAD: a peer that sends nothing times out like one that sends half a head. Deadlines
run only while the connection waits for the peer, never while a reply is being made.

Requests of one connection are answered in order. While `MAX_WAITING` of them wait, nothing more is parsed or
read, so the kernel throttles the peer. A peer that shuts down its sending side still gets the replies to its
complete requests.

This uses undocumented parts of uvicorn, so uvicorn is pinned to a minor version: of the protocol
`_start_asgi_task`, `_unset_keepalive_if_required`, `parser`, `pipeline`, `cycle`, `flow`, `app_state`,
`timeout_keep_alive_task` and `on_response_complete`; of a cycle `response_started`, `response_complete`,
`disconnected`, `keep_alive`, `message_event`, `chunked_encoding` and `expected_content_length`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from agentctx.config.schema import ServerSettings
from agentctx.errors import AgentctxError, RateLimited
from agentctx.server import request_limits as limits
from agentctx.server.peer import has_hung_up, peer_of
from agentctx.storage.quotas import Quotas

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGISendEvent

LINGER_S = 1.0
"""How long a closing connection waits for the peer to read the reply."""
MAX_WAITING = 8
"""How many requests of one connection may wait while another is served; one read may exceed this."""
_CHUNKED_PIECE = 4 * 1024
"""Bytes of a chunked body that are parsed at once: further requests may follow in the same data."""
_BLANK_LINE = b"\r\n\r\n"
_FRAMING = 2
"""Maximum bytes on the wire per byte of the largest body: the framing of chunks and trailers counts too."""


class _Phase(Enum):
    HEAD = auto()
    BODY = auto()
    IDLE = auto()


def piece_end(data: bytes, start: int, body_left: int | None) -> int:
    """Return where to stop parsing from `start`, so that at most two requests end in the piece.

    `body_left` is the number of missing bytes of the body: 0 before and in a head, None in a chunked body.
    """
    if body_left is None:
        return min(len(data), start + _CHUNKED_PIECE)
    if body_left:
        return min(len(data), start + body_left)
    found = data.find(_BLANK_LINE, start)
    return len(data) if found < 0 else found + len(_BLANK_LINE)


def protocol_class(settings: ServerSettings, quotas: Quotas | None = None) -> type[PeerProtocol]:
    """Return a class for `uvicorn.Config(http=…)` with these limits. `quotas` bounds the connections."""
    return type("LimitedPeerProtocol", (PeerProtocol,), {"settings": settings, "quotas": quotas})


def _send_unframed(cycle: RequestResponseCycle) -> None:
    """Send a reply without chunks, which HTTP/1.0 does not know: where no length is given, it ends with the
    connection.
    """
    send = cycle.send
    cycle.chunked_encoding = False

    async def unframed(message: ASGISendEvent) -> None:
        if message["type"] == "http.response.body":
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    cycle.send = unframed  # type: ignore[method-assign]


class _Flow(FlowControl):
    """Keeps reading paused while `is_full` returns true, even if a handler resumes it."""

    def __init__(self, transport: asyncio.Transport, is_full: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._is_full = is_full

    def resume_reading(self) -> None:
        if not self._is_full():
            super().resume_reading()


class PeerProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with limits, that puts the peer's credentials into every request's state (`peer`).

    `cut` in the state aborts a reply that cannot be completed.

    Exceeding a limit or deadline closes the connection, after the error body if no reply has begun.
    """

    settings: ClassVar[ServerSettings]
    quotas: ClassVar[Quotas | None] = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.closed = asyncio.Event()
        self._phase = _Phase.HEAD
        self._phase_bytes = 0
        """Bytes received in this phase, without the read in which it began."""
        self._body_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._drain_deadline: asyncio.TimerHandle | None = None
        self._unparsed = b""
        self._body_length: int | None = 0
        """Length of the current body; None if it is chunked."""
        self._has_peer_ended = False
        self._refusal: bytes | None = None
        self._running: RequestResponseCycle | None = None
        self._counted_uid: int | None = None

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        self.flow = _Flow(transport, lambda: bool(self._unparsed))
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
            return  # discard it, so that the peer reads our reply
        self._unparsed += data
        self._parse()

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn always closes
        """Return whether the connection stays open for pending replies."""
        if has_hung_up(self.transport.get_extra_info("socket")):
            return False
        self._has_peer_ended = True
        self._end_after_replies()
        return not self.transport.is_closing() and (self._is_answering() or bool(self.pipeline))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._drain_deadline = self.loop.call_later(self.settings.body_timeout_s, self.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._drain_deadline is not None:
            self._drain_deadline.cancel()
            self._drain_deadline = None

    # Parsing, piece by piece.

    def _parse(self) -> None:
        """Parse the received data while there is room for more requests."""
        data, self._unparsed, start = self._unparsed, b"", 0
        while start < len(data) and self._refusal is None and len(self.pipeline) < MAX_WAITING:
            end = piece_end(data, start, self._remaining_body())
            self._parse_piece(data[start:end])
            start = end
        if self._refusal is None and start < len(data):
            self._unparsed = data[start:]
            self.flow.pause_reading()
        elif self._has_peer_ended:
            self._end_after_replies()

    def _parse_piece(self, data: bytes) -> None:
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
            self._refuse(limits.reason(error))
        else:
            self._watch()

    def _remaining_body(self) -> int | None:
        if self._phase is not _Phase.BODY:
            return 0
        return None if self._body_length is None else self._body_length - self._body_bytes

    def _end_after_replies(self) -> None:
        """End the connection after the last complete request, because the peer has stopped sending."""
        if self._unparsed or self._refusal is not None:
            return
        if self._phase is _Phase.BODY:
            self._refuse(limits.cut_off())
        elif self._is_answering() or self.pipeline:
            self.cycle.keep_alive = False

    # Callbacks of the parser. Their exceptions end in `_parse_piece`.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._phase is not _Phase.HEAD:
            self._enter(_Phase.HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is _Phase.HEAD:  # otherwise a trailer, which is ignored
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        limits.check_head(self.url, self.headers, self.parser.get_http_version(), self.settings)
        if self.parser.should_upgrade():
            raise limits.other_protocol(self.headers)
        self._enter(_Phase.BODY)
        self._body_bytes, self._body_length = 0, limits.announced_body(self.headers)
        super().on_headers_complete()
        if self.parser.get_http_version() == "1.0":
            _send_unframed(self.cycle)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > (maximum := limits.largest_body(self.url, self.settings)):
            raise limits.body_too_large(maximum)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._enter(_Phase.IDLE)
        super().on_message_complete()

    # Callbacks of uvicorn.

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
            self._parse()
            self.flow.resume_reading()
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
        if (seconds := self._read_timeout_s()) is not None:
            self._deadline = self.loop.call_later(seconds, self._on_deadline)

    def _read_timeout_s(self) -> float | None:
        """Return how long to wait for the peer's next bytes; None while the peer waits for a reply."""
        if self._phase is _Phase.BODY:
            return None if self.pipeline else self.settings.body_timeout_s
        if self._is_answering():
            return None
        if self._phase is _Phase.HEAD:
            return self.settings.header_timeout_s
        return None if self.timeout_keep_alive_task else self.settings.keep_alive_s

    def _is_answering(self) -> bool:
        return self._running is not None and not self._running.response_complete

    @property
    def is_streaming(self) -> bool:
        """Whether a reply of a vendor has begun and not ended."""
        running = self._running if self._is_answering() else None
        return running is not None and running.response_started and "/proxy/" in running.scope["path"]

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        self._deadline = None
        if self._phase is _Phase.IDLE:
            self._close()
        elif self._phase is _Phase.HEAD:
            self._refuse(limits.too_slow("head", self.settings.header_timeout_s))
        elif self.flow.read_paused:
            self._watch()  # the handler is slow, not the peer
        else:
            self._refuse(limits.too_slow("body", self.settings.body_timeout_s))

    def _check_phase_bytes(self) -> None:
        if self._phase is _Phase.HEAD and self._phase_bytes > self.settings.max_header_bytes:
            raise limits.head_too_large(self.settings)
        if self._phase is _Phase.BODY:
            maximum = limits.largest_body(self.url, self.settings)
            if self._phase_bytes > _FRAMING * maximum:
                raise limits.body_too_large(maximum)

    # Ending the connection.

    def _refuse(self, error: AgentctxError) -> None:
        """Read no more requests; send the error after the replies to earlier requests."""
        self._disarm()
        self._refusal, self._unparsed = limits.refusal(error), b""
        if self._phase is not _Phase.BODY:
            if self._is_answering():
                return
        elif self.pipeline:
            self.pipeline.popleft()  # the refused request, which was still waiting
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
        # Closing with unread bytes in the socket would reset the connection and lose the reply, so only our
        # side is closed and the rest is read, until the peer closes or time is up.
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        self.transport.write(refusal)
        if self._has_peer_ended:
            self._close()
            return
        self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGER_S, self.abort)

    def _disconnect_requests(self) -> None:
        """Disconnect the handlers of all requests: uvicorn notifies only the newest one, and the others would
        write to a closed transport.
        """
        for cycle in (self._running, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def cut(self) -> None:
        """Close after sending what was written, so that the peer sees an incomplete reply."""
        self._disconnect_requests()
        self._close()

    def abort(self) -> None:
        """Close immediately."""
        self._disconnect_requests()
        self.transport.abort()

    def _close(self) -> None:
        self._disarm()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._deadline = self.loop.call_later(LINGER_S, self.abort)
