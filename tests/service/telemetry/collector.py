"""A loopback collector that accepts OTLP over HTTP and keeps the spans."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class ExportedSpan:
    """A received span. Ids are hexadecimal; without a parent, `parent` is empty."""

    name: str
    trace: str
    id: str
    parent: str
    kind: str
    status: str
    attributes: dict[str, str | int]
    events: int


@dataclass
class Collector:
    """What was received. `raw` is everything that was sent, as bytes."""

    endpoint: str
    paths: list[str] = field(default_factory=list)
    raw: bytes = b""
    resource: dict[str, str | int] = field(default_factory=dict)
    schemas: set[str] = field(default_factory=set)
    spans: list[ExportedSpan] = field(default_factory=list)

    def named(self, name: str) -> ExportedSpan:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def children(self, parent: ExportedSpan) -> set[str]:
        return {span.name for span in self.spans if span.parent == parent.id}

    def take(self, path: str, body: bytes) -> None:
        self.paths.append(path)
        self.raw += body
        for traced in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource = _plain(traced.resource.attributes)
            for scope in traced.scope_spans:
                self.schemas.add(scope.schema_url)
                self.spans += map(_seen, scope.spans)


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the library's name

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.endpoint = f"http://127.0.0.1:{server.server_port}"
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield collector
        finally:
            server.shutdown()
            serving.join()


def _seen(span: Span) -> ExportedSpan:
    return ExportedSpan(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        status=type(span.status).StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
        attributes=_plain(span.attributes),
        events=len(span.events),
    )


def _plain(attributes: Iterator[KeyValue]) -> dict[str, str | int]:
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in attributes}
