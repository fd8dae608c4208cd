"""A small real HTTP server on a Unix socket that speaks the wire format and returns scripted answers.

Request bodies are validated with the strict models of the wire, so what the daemon would refuse fails here.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, is_dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import TypeAdapter, ValidationError

from agentctx.wire import (
    ActivityStatus,
    BuriedJob,
    CheckResult,
    ContextRequest,
    DatabaseStatus,
    DoctorReply,
    DoctorSummary,
    EditRequest,
    EntryView,
    ErrorBody,
    ErrorReply,
    ExplainRequest,
    Latency,
    OutcomeRequest,
    Passage,
    ProviderStatus,
    QueueReply,
    SaveManyRequest,
    SaveRequest,
    SaveResult,
    SearchRequest,
    StatusReply,
)

ID = "019aa000-0000-7000-8000-000000000001"


@dataclass(frozen=True)
class StubRequest:
    """A received request."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


Reply = tuple[int, Any]
"""Status, and a wire dataclass or JSON value."""
Answer = Reply | Callable[[StubRequest], Reply] | bytes | Iterator[bytes]
"""A reply, a function that returns one, or the raw bytes of a response, whole or in pieces."""


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # a peer that hung up is fine
            super().handle_error(request, client_address)


class StubDaemon:
    """Returns the answers given to `answer`, repeating the last; `seen` contains the requests."""

    connections: list[socket.socket]
    """All connections ever accepted."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.seen: list[StubRequest] = []
        self.version: str | None = None
        self.dropping = 0
        """The number of requests to read before closing their connections without an answer."""
        self.silent = threading.Event()
        self.silent.set()
        """While clear, requests are read but not answered."""
        self.asked = threading.Event()
        """Set when the first request has been read."""
        self.hasty = False
        """Whether to answer requests and close their connections before their bodies are read."""
        self.connections = []
        self._answers: defaultdict[tuple[str, str], deque[Answer]] = defaultdict(deque)

    def answer(self, method: str, path: str, *answers: Answer) -> None:
        self._answers[method, path] = deque(answers)

    def fail(self, method: str, path: str, status: int, code: str, message: str, hint: str = "") -> None:
        self.answer(
            method, path, (status, ErrorReply(error=ErrorBody(code=code, message=message, hint=hint)))
        )

    def hang_up(self) -> None:
        """Shut down all connections; peers can notice it once this returns."""
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def next_answer(self, seen: StubRequest) -> Reply | bytes | Iterator[bytes]:
        waiting = self._answers[seen.method, seen.path]
        if not waiting:
            return 404, ErrorReply(
                error=ErrorBody(code="not_found", message=f"No {seen.method} {seen.path}.")
            )
        answer = waiting.popleft() if len(waiting) > 1 else waiting[0]
        return answer(seen) if callable(answer) else answer

    @contextmanager
    def running(self) -> Iterator[StubDaemon]:
        with _Server(str(self.socket), _handler_of(self)) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield self
            finally:
                self.silent.set()
                self.hang_up()
                server.shutdown()
                thread.join()
                self.socket.unlink()


def _handler_of(daemon: StubDaemon) -> type[BaseHTTPRequestHandler]:
    return type("StubHandler", (_Handler,), {"stub": daemon})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: ClassVar[StubDaemon]

    def setup(self) -> None:
        super().setup()
        self.stub.connections.append(self.connection)

    def handle_any(self) -> None:
        seen = self._read()
        self.stub.seen.append(seen)
        self.stub.asked.set()
        self.stub.silent.wait()
        if self.stub.dropping:
            self.stub.dropping -= 1
            self.close_connection = True
            return
        answer = _refusal(seen) or self.stub.next_answer(seen)
        self.close_connection |= self.stub.hasty or not isinstance(answer, tuple)
        if isinstance(answer, tuple):
            self._write(*answer)
        else:
            self._write_pieces([answer] if isinstance(answer, bytes) else answer)

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815 - http.server's names

    def _read(self) -> StubRequest:
        url = urlsplit(self.path)
        raw = b"" if self.stub.hasty else self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = json.loads(raw) if raw else None
        return StubRequest(self.command, unquote(url.path), parse_qs(url.query), headers, body)

    def _write(self, status: int, value: Any) -> None:
        body = json.dumps(asdict(value) if is_dataclass(value) else value).encode()  # type: ignore[arg-type]  # an instance, not a class
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.stub.version:
            self.send_header("X-Agentctx-Version", self.stub.version)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _write_pieces(self, pieces: Iterable[bytes]) -> None:
        with suppress(OSError):  # the peer may have hung up
            for piece in pieces:
                self.wfile.write(piece)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def address_string(self) -> str:
        return "unix"


def _refusal(seen: StubRequest) -> Reply | None:
    """Return the daemon's refusal of a body that its models reject, or None."""
    models: dict[tuple[str, str], Any] = {
        ("POST", "/v1/entries"): SaveManyRequest if "entries" in (seen.body or {}) else SaveRequest,
        ("POST", "/v1/search"): SearchRequest,
        ("POST", "/v1/context"): ContextRequest,
        ("POST", "/v1/injections/explain"): ExplainRequest,
    }
    model = models.get((seen.method, seen.path))
    if seen.method == "PATCH":
        model = EditRequest
    if seen.path.endswith("/outcome"):
        model = OutcomeRequest
    try:
        if model:
            TypeAdapter(model).validate_json(json.dumps(seen.body))
    except ValidationError as error:
        return 400, ErrorReply(error=ErrorBody(code="invalid_input", message=str(error)))
    return None


def save_result(**changes: Any) -> SaveResult:
    return SaveResult(**{"id": ID, "version": 1, "changed": True, **changes})


def entry(**changes: Any) -> EntryView:
    fields: dict[str, Any] = {
        "id": ID,
        "version": 2,
        "live": True,
        "namespace": "default",
        "collection": "knowledge",
        "key": "deploy-window",
        "session": None,
        "agent": None,
        "content": "Nothing goes to production on a Friday.\nAsk the operator on call.",
        "attributes": {"category": "rule", "tags": ["ops", "release"]},
        "origin": "agent",
        "trust": "agent",
        "principal": 1000,
        "created": "2026-11-20T10:00:00.000Z",
        "updated": "2026-11-21T10:00:00.000Z",
        "expires": None,
        "embedding": "done",
    }
    return EntryView(**{**fields, **changes})


def passage(**changes: Any) -> Passage:
    fields: dict[str, Any] = {
        "namespace": "default",
        "collection": "knowledge",
        "id": ID,
        "source_id": "deploy-window",
        "version": 2,
        "content": "Nothing goes to production on a Friday.",
        "distance": 0.31249,
        "relevance": 0.875,
        "start": 0,
        "end": 39,
        "session": None,
        "agent": None,
        "origin": "agent",
        "trust": "agent",
        "created": "2026-11-20T10:00:00.000Z",
        "updated": "2026-11-21T10:00:00.000Z",
        "attributes": {"category": "rule"},
    }
    return Passage(**{**fields, **changes})


def queue_reply(pending: int = 3, buried: int = 1) -> QueueReply:
    jobs = [
        BuriedJob(job=number, entry=ID, collection="knowledge", attempts=2, reason="the text is empty")
        for number in range(buried)
    ]
    return QueueReply(pending=pending, buried=buried, oldest_seconds=12.5, buried_jobs=jobs)


def doctor_reply(fixed: str | None = None) -> DoctorReply:
    check = CheckResult(
        id="data-permissions", group="paths", status="pass", message="Only you can read it.", fixed=fixed
    )
    summary = DoctorSummary(passed=1, warned=0, failed=0, skipped=0)
    return DoctorReply(version="0.1.0", ok=True, checks=[check], summary=summary)


def status_reply(**changes: Any) -> StatusReply:
    fields: dict[str, Any] = {
        "version": "0.1.0",
        "pid": 4711,
        "uptime_seconds": 3700.0,
        "socket": "/run/agentctx/agentctx.sock",
        "entries": {"knowledge": 6, "learning": 3},
        "chunks": 9,
        "vectors": 8,
        "provider": ProviderStatus(
            id="embedded", model="all-MiniLM-L6-v2", dimension=384, state="ok", reason=None
        ),
        "queue": queue_reply(),
        "database": DatabaseStatus(
            path="/var/lib/agentctx/agentctx.db",
            engine="SQLite 3.53.4",
            bytes=1_250_000,
            wal_bytes=4_096,
            commits=12,
        ),
        "embed_cpu_seconds": 0.3,
        "cpu_seconds": 1.25,
        "rss_bytes": 120_000_000,
        "vector_memory_bytes": 4_160_000,
        "word_memory_bytes": 330_000,
        "activity": ActivityStatus(
            saved=9,
            asked=4,
            degraded=1,
            embedded=8,
            provider_failures=0,
            save=Latency(p50_ms=2.5, p95_ms=4.0),
            ask=Latency(p50_ms=6.0, p95_ms=11.5),
            embed=None,
        ),
    }
    return StatusReply(**{**fields, **changes})
