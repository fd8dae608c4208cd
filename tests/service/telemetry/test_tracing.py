"""Spans as a collector receives them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from agentctx import __version__
from agentctx.config.schema import Settings
from agentctx.daemon.build import Core
from agentctx.embedding.providers.fake import FakeFault, FakeProvider
from agentctx.errors import Disposition
from agentctx.server.app import create_app
from agentctx.service.telemetry.recorder import Recorder
from agentctx.service.telemetry.tracing import Tracing, traces_url
from agentctx.storage.vectors import Vectors
from tests.running_core import embedded, running_core, save
from tests.server.running import running
from tests.service.access.peers import access_control
from tests.service.telemetry.collector import Collector, collecting

TEXT = "zanzibar quixotic falcon"
CALLER_TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER_SPAN = "b7ad6b7169203331"
TRACEPARENT = f"00-{CALLER_TRACE}-{CALLER_SPAN}-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture
def provider() -> FakeProvider:
    return FakeProvider(8)


@asynccontextmanager
async def traced(
    folder: Path, provider: FakeProvider, collector: Collector
) -> AsyncIterator[tuple[Core, httpx.AsyncClient]]:
    """A core with its app. On exit, the collector has every span."""
    telemetry = {"traces": "otlp", "endpoint": collector.endpoint}
    async with (
        running_core(folder / "core", provider, telemetry=telemetry) as core,
        running(asgi=create_app(core, core.guard(access_control()), Settings(), core.telemetry)) as daemon,
    ):
        await embedded(core)
        yield core, daemon.http


def entry(**fields: object) -> dict[str, object]:
    return {"collection": "knowledge", "key": f"key {TEXT}", "content": TEXT, **fields}


async def test_a_question_and_its_stages(
    tmp_path: Path, provider: FakeProvider, collector: Collector
) -> None:
    async with traced(tmp_path, provider, collector) as (core, http):
        await save(core, key="k", content="a falcon")
        await embedded(core)
        reply = await http.post(
            "/v1/search",
            json={"query": "falcon", "limit": 7},
            headers={"traceparent": TRACEPARENT, "X-Request-Id": "r-1"},
        )
    assert reply.status_code == 200
    request = collector.named("POST /v1/search")
    assert (request.trace, request.parent, request.kind) == (CALLER_TRACE, CALLER_SPAN, "SERVER")
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/search",
        "http.response.status_code": 200,
        "agentctx.request_id": "r-1",
    }
    retrieval = collector.named("retrieval agentctx")
    assert (retrieval.trace, retrieval.parent) == (CALLER_TRACE, request.id)
    assert retrieval.attributes == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.provider.name": "agentctx",
        "gen_ai.data_source.id": "agentctx",
        "gen_ai.retrieval.top_k": 7,
    }
    stages = {"words", "vectors", "fuse", "traits", "rank", "resolve", "rate"}
    assert collector.children(retrieval) == stages | {"embeddings bag-of-words"}


async def test_embeddings_of_questions_and_saves_have_spans(
    tmp_path: Path, provider: FakeProvider, collector: Collector
) -> None:
    async with traced(tmp_path, provider, collector) as (core, http):
        await save(core, key="k", content=TEXT)
        await embedded(core)
        await http.post("/v1/search", json={"query": TEXT})
    calls = [span for span in collector.spans if span.name == "embeddings bag-of-words"]
    assert {span.kind for span in calls} == {"CLIENT"}
    assert [span.attributes for span in calls] == [
        {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": "fake",
            "gen_ai.request.model": "bag-of-words",
            "gen_ai.embeddings.dimension.count": 8,
            "agentctx.embed.kind": kind,
            "agentctx.embed.texts": 1,
        }
        for kind in ("probe", "batch", "query")
    ]
    assert [bool(span.parent) for span in calls] == [False, False, True], (
        "the queue works for nobody's request"
    )


async def test_a_save(tmp_path: Path, provider: FakeProvider, collector: Collector) -> None:
    async with traced(tmp_path, provider, collector) as (_, http):
        saved = (await http.post("/v1/entries", json=entry())).json()
        await http.patch(f"/v1/entries/{saved['id']}", json={"tags": ["x"]})
    request = collector.named("POST /v1/entries")
    saving = collector.named("upsert_memory")
    assert request.parent == ""
    assert saving.parent == request.id
    assert saving.attributes == {
        "gen_ai.operation.name": "upsert_memory",
        "gen_ai.provider.name": "agentctx",
        "agentctx.collection": "knowledge",
        "agentctx.change": "created",
    }
    editing = collector.named("update_memory")
    assert editing.parent == collector.named("PATCH /v1/entries/{entry_id}").id
    assert editing.attributes["agentctx.change"] == "attributes"


async def test_a_failed_span_has_an_error_code(
    tmp_path: Path, provider: FakeProvider, collector: Collector
) -> None:
    async with traced(tmp_path, provider, collector) as (core, http):
        provider.faults = [FakeFault.fails(Disposition.SPLIT, when=lambda text: "falcon" in text)]
        await save(core, key="k", content=TEXT)
        await embedded(core)
        await http.post("/v1/search", json={"query": TEXT})
        await http.post("/v1/entries", json=entry(collection=TEXT))
        await core.storage.close()
        assert (await http.get("/v1/entries")).status_code == 503
    refused = [span for span in collector.spans if span.name == "upsert_memory" and span.status == "ERROR"]
    assert [span.attributes["error.type"] for span in refused] == ["unknown_collection"]
    calls = [span for span in collector.spans if span.status == "ERROR" and "embed" in span.name]
    assert [span.attributes["error.type"] for span in calls] == ["split"] * 3
    assert collector.named("retrieval agentctx").attributes["agentctx.degraded"] == "provider_failed"
    assert collector.named("POST /v1/search").status == "UNSET"
    assert collector.named("GET /v1/entries").attributes["error.type"] == "503"


async def test_no_span_contains_texts_keys_or_paths(
    tmp_path: Path, provider: FakeProvider, collector: Collector
) -> None:
    async with traced(tmp_path, provider, collector) as (core, http):
        await http.post("/v1/entries", json=entry(tags=[TEXT], agent=TEXT, session=TEXT, source=TEXT))
        await http.post("/v1/entries", json=entry(namespace=TEXT))
        await http.post("/v1/entries", json=entry(collection=TEXT))
        await http.post("/v1/search", json={"query": TEXT, "session": TEXT})
        await http.get(f"/v1/entries/{TEXT}", params={"version": TEXT})
        await http.get(f"/{TEXT}")
        provider.faults = [FakeFault(_quoting)]
        with capture_logs():  # a traceback for people takes seconds to draw
            await http.post("/v1/search", json={"query": f"{TEXT} again"})
        await save(core, key="k", content=f"{TEXT} again")
        page = await core.metrics.metrics()
    assert len(collector.spans) > 10
    for word in TEXT.encode().split():
        assert word not in collector.raw
        assert word not in page
    assert {span.events for span in collector.spans} == {0}, "an event would hold the exception's message"


def _quoting(_: Vectors) -> Vectors:
    raise ValueError(f"cannot embed {TEXT}")


async def test_spans_name_the_service_and_its_version(
    tmp_path: Path, provider: FakeProvider, collector: Collector
) -> None:
    async with traced(tmp_path, provider, collector) as (_, http):
        for path in ("/healthz", "/readyz", "/metrics"):
            await http.get(path)
    assert set(collector.paths) == {"/v1/traces"}
    assert collector.resource["service.name"] == "agentctx"
    assert collector.resource["service.version"] == __version__
    assert collector.schemas == {"https://opentelemetry.io/schemas/1.44.0"}
    assert {span.name for span in collector.spans} == {"embeddings bag-of-words"}, "probes make no spans"


async def test_traces_do_not_replace_metrics(
    tmp_path: Path, provider: FakeProvider, collector: Collector
) -> None:
    async with traced(tmp_path, provider, collector) as (core, http):
        await http.post("/v1/entries", json=entry())
        assert (
            b'agentctx_saves_total{change="created",collection="knowledge"} 1.0'
            in await core.metrics.metrics()
        )


async def test_an_unreachable_collector_does_not_delay_closing() -> None:
    with collecting() as gone:
        endpoint = gone.endpoint
    tracing = Tracing(Recorder(), endpoint=endpoint, model=None, version="1")
    with tracing.embedding("probe", 1):
        pass
    await tracing.close(timeout_s=0.01)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("", ""),
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
        ("https://collector.example/otlp/v1/traces", "https://collector.example/otlp/v1/traces"),
    ],
)
def test_an_endpoint_without_a_path_gets_the_standard_one(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url
