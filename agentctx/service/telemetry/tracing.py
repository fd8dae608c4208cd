"""Spans over OTLP. The only module that imports OpenTelemetry; itself imported only if configured.

    POST /v1/search                    upsert_memory, update_memory
    └── retrieval agentctx             embeddings <model>, of the queue: traces of their own
        ├── words
        ├── embeddings <model>
        ├── vectors, distances
        └── fuse, resolve

Spans contain no texts; of the values that callers choose, only existing collections.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextvars import Token
from types import TracebackType
from typing import Protocol, Self, TypeAlias
from urllib.parse import urlsplit

from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentctx.service.telemetry.labels import failure_code, provider_failure
from agentctx.telemetry import EmbedKind, Headers, Measurement, Stage, Telemetry

Attributes: TypeAlias = Mapping[str, str | int]
Describe: TypeAlias = Callable[[Span, tuple[str, ...]], None]

EXPORT_TIMEOUT_S = 5.0
MAX_QUEUED_SPANS = 8_192
"""Number of spans kept while the collector does not accept them; more are dropped."""
CLOSE_TIMEOUT_S = 3.0
"""How long the daemon waits for the collector when it stops."""

_TRACE_HEADERS = frozenset({b"traceparent", b"tracestate"})
_NS_PER_S = 10**9
_PROPAGATOR = TraceContextTextMapPropagator()
SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the stable conventions (`http.*`, `error.*`, `service.*`)."""

SERVICE = "agentctx"
"""Also the provider and the data source in spans about memories."""

ERROR_TYPE = "error.type"
HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
SERVICE_NAME = "service.name"
SERVICE_VERSION = "service.version"
SERVICE_INSTANCE = "service.instance.id"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
DIMENSIONS = "gen_ai.embeddings.dimension.count"
DATA_SOURCE = "gen_ai.data_source.id"
TOP_K = "gen_ai.retrieval.top_k"

EMBEDDINGS = "embeddings"
RETRIEVAL = "retrieval"
UPSERT_MEMORY = "upsert_memory"
"""A save, because the caller does not choose between a new entry and a new version."""
UPDATE_MEMORY = "update_memory"

REQUEST_ID = "agentctx.request_id"
COLLECTION = "agentctx.collection"
CHANGE = "agentctx.change"
DEGRADED = "agentctx.degraded"
EMBED_KIND = "agentctx.embed.kind"
TEXTS = "agentctx.embed.texts"


class TracedModel(Protocol):
    """What spans need to know about the embedding provider; the dimension is 0 until it is known."""

    @property
    def id(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int: ...


class Tracing(Telemetry):
    """A `Telemetry` that makes spans and forwards to `inner`. Call `close` at the end."""

    def __init__(self, inner: Telemetry, *, endpoint: str, model: TracedModel | None, version: str) -> None:
        """Args:
        inner: also receives all reports.
        endpoint: where spans are sent, see `traces_url`; empty uses OpenTelemetry's own variables.
        model: the embedding provider, if there is one.
        version: the program's version.
        """
        self._inner = inner
        # Reports that are not operations have no span; a commit is shared by many requests.
        for name in ("injected", "not_injected", "quota_exceeded", "flagged", "committed", "loop_lagged"):
            setattr(self, name, getattr(inner, name))
        self._model = model
        names = {SERVICE_NAME: SERVICE, SERVICE_VERSION: version, SERVICE_INSTANCE: str(uuid.uuid4())}
        resource = Resource.create(names, schema_url=SCHEMA_URL)
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._exporter = OTLPSpanExporter(endpoint=traces_url(endpoint) or None, timeout=EXPORT_TIMEOUT_S)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter, max_queue_size=MAX_QUEUED_SPANS))
        self._tracer = self._provider.get_tracer(SERVICE, version, schema_url=SCHEMA_URL)

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Send pending spans, waiting at most `timeout_s` seconds for an absent collector."""
        # A daemon thread, because the library may hang in it for half a minute.
        closing = threading.Thread(target=self._provider.shutdown, name="close traces", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, timeout_s)
        if closing.is_alive():
            self._exporter.shutdown()  # type: ignore[no-untyped-call]  # it stops retrying

    def request(self, method: str, headers: Headers, request_id: str) -> Measurement:
        def describe(span: Span, labels: tuple[str, ...]) -> None:
            route, status = labels
            span.update_name(f"{method} {route}")
            span.set_attributes({HTTP_ROUTE: route, HTTP_STATUS: int(status)})
            if status >= "500":
                _fail(span, status)

        return _TracedMeasurement(
            self._inner.request(method, headers, request_id),
            self._tracer,
            method,
            {HTTP_METHOD: method, REQUEST_ID: request_id},
            describe,
            kind=SpanKind.SERVER,
            parent=_parent(headers),
        )

    def saving(self) -> Measurement:
        def describe(span: Span, labels: tuple[str, ...]) -> None:
            collection, change = labels
            span.set_attributes({COLLECTION: collection, CHANGE: change})

        return self._memory(self._inner.saving(), UPSERT_MEMORY, describe)

    def editing(self) -> Measurement:
        def describe(span: Span, labels: tuple[str, ...]) -> None:
            (change,) = labels
            span.set_attribute(CHANGE, change)

        return self._memory(self._inner.editing(), UPDATE_MEMORY, describe)

    def answering(self, limit: int) -> Measurement:
        def describe(span: Span, labels: tuple[str, ...]) -> None:
            for degradation in labels:
                span.set_attribute(DEGRADED, degradation)

        attributes: Attributes = {
            OPERATION: RETRIEVAL,
            PROVIDER: SERVICE,
            DATA_SOURCE: SERVICE,
            TOP_K: limit,
        }
        name = f"{RETRIEVAL} {SERVICE}"
        return _TracedMeasurement(self._inner.answering(limit), self._tracer, name, attributes, describe)

    def stage(self, stage: Stage) -> Measurement:
        return _TracedMeasurement(self._inner.stage(stage), self._tracer, stage, {}, _no_attributes)

    def passed(self, stage: Stage, began: float, seconds: float) -> None:
        self._inner.passed(stage, began, seconds)
        start_ns = time.time_ns() - int((time.perf_counter() - began) * _NS_PER_S)
        span = self._tracer.start_span(stage, start_time=start_ns)
        span.end(start_ns + int(seconds * _NS_PER_S))

    def embedding(self, kind: EmbedKind, texts: int) -> Measurement:
        def describe(span: Span, labels: tuple[str, ...]) -> None:
            for disposition in labels:
                _fail(span, disposition)

        model = self._model
        name = f"{EMBEDDINGS} {model.model}" if model else EMBEDDINGS
        attributes: Attributes = {
            OPERATION: EMBEDDINGS,
            EMBED_KIND: kind,
            TEXTS: texts,
            **(_described(model) if model else {}),
        }
        inner = self._inner.embedding(kind, texts)
        # CLIENT also for the model in this process: the conventions leave it open, and tools look for it.
        return _TracedMeasurement(
            inner, self._tracer, name, attributes, describe, kind=SpanKind.CLIENT, failure=provider_failure
        )

    def _memory(self, inner: Measurement, operation: str, describe: Describe) -> Measurement:
        attributes = {OPERATION: operation, PROVIDER: SERVICE}
        return _TracedMeasurement(inner, self._tracer, operation, attributes, describe)


class _TracedMeasurement(Measurement):
    """An operation with a span, which is the parent of spans made inside it."""

    __slots__ = ("_arguments", "_describe", "_failure", "_inner", "_labels", "_span", "_token", "_tracer")

    def __init__(
        self,
        inner: Measurement,
        tracer: Tracer,
        name: str,
        attributes: Attributes,
        describe: Describe,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        parent: Context | None = None,
        failure: Callable[[BaseException], str] = failure_code,
    ) -> None:
        self._inner = inner
        self._tracer = tracer
        self._arguments = (name, parent, kind, attributes)
        self._describe = describe
        self._failure = failure
        self._labels: tuple[str, ...] = ()
        self._span: Span
        self._token: Token[Context]

    def ended(self, *labels: str) -> None:
        self._inner.ended(*labels)
        self._labels = labels

    def __enter__(self) -> Self:
        self._span = self._tracer.start_span(*self._arguments)
        self._token = contexts.attach(set_span_in_context(self._span))
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._inner.__exit__(kind, error, trace)
        if self._labels:
            self._describe(self._span, self._labels)
        if error is not None:
            # Only the class of the failure: the message or traceback of a foreign error may quote a text.
            _fail(self._span, self._failure(error))
        self._span.end()
        contexts.detach(self._token)


def traces_url(endpoint: str) -> str:
    """Return the URL to post spans to, adding the standard path if the endpoint has none."""
    parts = urlsplit(endpoint)
    return endpoint if not endpoint or parts.path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"


def _parent(headers: Headers) -> Context:
    """Return the caller's trace, or none; never a trace that happens to be current."""
    carrier = {
        name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name in _TRACE_HEADERS
    }
    return _PROPAGATOR.extract(carrier, Context())


def _described(model: TracedModel) -> Attributes:
    known = {PROVIDER: model.id, REQUEST_MODEL: model.model}
    return {**known, DIMENSIONS: model.dimension} if model.dimension else known


def _fail(span: Span, failure: str) -> None:
    span.set_attribute(ERROR_TYPE, failure)
    span.set_status(Status(StatusCode.ERROR))


def _no_attributes(span: Span, labels: tuple[str, ...]) -> None: ...
