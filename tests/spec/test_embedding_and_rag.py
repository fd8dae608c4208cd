"""REQ-EMB of the specification: a test for each requirement and scenario, named after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from agentctx import ContextAwareModelAdapter
from agentctx.config.embedding import EmbeddingSettings, QueueSettings, RagSettings
from agentctx.config.load import load_settings
from agentctx.config.schema import Settings
from agentctx.daemon.build import Core
from agentctx.doctor.catalog import CHECK_IDS
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.embedding.providers.registry import create_provider
from agentctx.embedding.queue.worker import EmbeddingQueue
from agentctx.embedding.vector_stores.base import VectorRecord
from agentctx.embedding.vector_stores.sqlite_vec import SqliteVecStore
from agentctx.errors import UnknownProvider
from agentctx.llm.base import FunctionModelAdapter
from agentctx.llm.context_source import ServiceContextSource
from agentctx.service.rag.question import Question
from agentctx.service.rag.retrieval import ServingModel
from agentctx.service.rag.service import RAGService
from agentctx.service.stores.typed import KnowledgeStore, LearningStore, MemoryStore
from agentctx.storage.records import Job
from agentctx.storage.search import Filter
from agentctx.storage.vectors import Vectors
from agentctx.text.chunking import PositionAwareChunk
from agentctx.times import wall_clock
from agentctx_testing.fake_provider.serving import running
from tests.embedding.queue.memory_jobs import MemoryJobs
from tests.embedding.queue.scripted_provider import ScriptedProvider
from tests.running_core import ME, embedded, running_core, save


class Recording(FakeProvider):
    """Records the texts of every batch."""

    def __init__(self, dimension: int = 16) -> None:
        super().__init__(dimension)
        self.batches: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.batches.append(list(texts))
        return await super().embed(texts)


def chunk(name: str, content: str = "text") -> PositionAwareChunk:
    return PositionAwareChunk(name, content, "doc.md", 0, len(content), {"tag": name})


def record(name: str, *vector: float, collection: str = "knowledge") -> VectorRecord:
    return VectorRecord(chunk=chunk(name), embedding=np.array(vector, np.float32), collection=collection)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteVecStore]:
    opened = await SqliteVecStore.open(tmp_path / "vectors.db", dimension=2)
    yield opened
    await opened.close()


@pytest.fixture
def provider() -> Recording:
    return Recording()


@pytest.fixture
async def core(tmp_path: Path, provider: Recording) -> AsyncIterator[Core]:
    async with running_core(tmp_path / "data", provider) as running:
        yield running


# REQ-EMB-001


async def test_req_emb_001_embedding_provider_interface() -> None:
    provider = create_provider(Settings.model_validate({"embedding": {"provider": "fake"}}).embedding)
    assert provider is not None
    vectors = await provider.embed(["one", "two"])
    assert provider.id == "fake"
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, provider.dimension)


async def embedded_by(service: str, settings: dict[str, object]) -> Vectors:
    """Embed two texts with a provider from the registry, over the fake server."""
    async with running(dimension=8) as server:
        section = {"provider": service, "base_url": server.base_url(service), **settings}
        provider = create_provider(EmbeddingSettings.model_validate(section))
        assert provider is not None
        try:
            return await provider.embed(["hello", "world"])
        finally:
            await provider.aclose()


async def test_req_emb_001_embedding_provider_interface__openai() -> None:
    vectors = await embedded_by("openai", {"api_key": "key", "dimensions": 8})
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, 8)


async def test_req_emb_001_embedding_provider_interface__google() -> None:
    vectors = await embedded_by("google", {"api_key": "key", "dimensions": 8})
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, 8)


async def test_req_emb_001_embedding_provider_interface__local_ollama() -> None:
    vectors = await embedded_by("ollama", {})
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, 8)


def test_req_emb_001_embedding_provider_interface__unknown_provider_type() -> None:
    with pytest.raises(UnknownProvider, match="embedded"):
        create_provider(Settings.model_validate({"embedding": {"provider": "nobody"}}).embedding)


# REQ-EMB-002


async def test_req_emb_002_vector_store(store: SqliteVecStore) -> None:
    await store.upsert([record("a", 1, 0), record("b", 1, 0, collection="learning")])
    assert [hit.id for hit in await store.search([1, 0], collection="learning")] == ["b"]
    await store.delete("learning", ["b"])
    assert await store.search([1, 0], collection="learning") == []


async def test_req_emb_002_vector_store__upsert_stores(store: SqliteVecStore) -> None:
    await store.upsert([record("a", 1, 0)])
    (hit,) = await store.search([1, 0])
    assert (hit.id, hit.collection, hit.metadata["tag"]) == ("a", "knowledge", "a")


async def test_req_emb_002_vector_store__upsert_replaces(store: SqliteVecStore) -> None:
    await store.upsert([record("a", 1, 0)])
    await store.upsert([record("a", 0, 1)])
    (hit,) = await store.search([0, 1])
    assert hit.distance == pytest.approx(0, abs=1e-6)


async def test_req_emb_002_vector_store__search_sorts_by_distance_ascending(store: SqliteVecStore) -> None:
    await store.upsert([record("far", -1, 0), record("near", 1, 0.1), record("between", 0, 1)])
    hits = await store.search([1, 0])
    assert [hit.id for hit in hits] == ["near", "between", "far"]
    assert [hit.distance for hit in hits] == sorted(hit.distance for hit in hits)


async def test_req_emb_002_vector_store__delete_removes(store: SqliteVecStore) -> None:
    await store.upsert([record("a", 1, 0), record("b", 0, 1)])
    await store.delete("knowledge", ["a"])
    assert [hit.id for hit in await store.search([1, 0])] == ["b"]


# REQ-EMB-003


@pytest.mark.parametrize("dimension", [8, 24])
async def test_req_emb_003_sqlite_vec_integration(tmp_path: Path, dimension: int) -> None:
    async with running_core(tmp_path / "data", FakeProvider(dimension)) as core:
        await save(core, key="a", content="in the shared file")
        await embedded(core)
        (space,) = await core.storage.spaces.all()
        assert space.dimension == dimension
        assert (await core.storage.stats()).vectors == 1
    assert [path.name for path in (tmp_path / "data").glob("*.db")] == ["agentctx.db"]


# REQ-EMB-004


async def test_req_emb_004_async_embedding_buffer(core: Core) -> None:
    saved = await save(core, key="a", content="embedded behind the acknowledgement")
    assert saved.embedding == "pending"
    await embedded(core)
    assert (await core.entries.get(saved.id, ME)).embedding == "done"


async def test_req_emb_004_async_embedding_buffer__enqueued_is_processed_in_the_background(
    core: Core, provider: Recording
) -> None:
    await save(core, key="a", content="the request")
    await embedded(core)
    assert any("the request" in text for batch in provider.batches for text in batch)


async def test_req_emb_004_async_embedding_buffer__one_batch_at_size_or_timeout(
    tmp_path: Path, provider: Recording
) -> None:
    queue = {"embedding": {"queue": {"batch_size": 4}}}
    async with running_core(tmp_path / "data", provider, settings=Settings.model_validate(queue)) as core:
        await embedded(core)
        provider.batches.clear()
        provider.hold(queries=False)
        await save(core, key="alone", content="x")  # the others wait for the end of its call
        await asyncio.gather(*(save(core, key=f"k{number}", content="x") for number in range(6)))
        provider.release()
        await embedded(core)
    assert [len(batch) for batch in provider.batches] == [1, 4, 2]


async def test_req_emb_004_async_embedding_buffer__stop_drains(
    tmp_path: Path, core: Core, provider: Recording
) -> None:
    await embedded(core)
    provider.hold(queries=False)
    await asyncio.gather(*(save(core, key=f"k{number}", content="x") for number in range(9)))
    assert core.lanes is not None
    stopping = asyncio.create_task(core.lanes.leading.queue.stop())
    provider.release()
    await stopping
    assert (await core.storage.jobs.depth()).pending == 0
    assert (await core.storage.stats()).vectors == 9
    table = MemoryJobs()
    queue = EmbeddingQueue(table, ScriptedProvider(), QueueSettings(), clock=wall_clock)
    queue.start()
    queue.enqueue(table.save("one", "two", "three"))
    await queue.stop()
    assert len(table.vectors) == 3


# REQ-EMB-005


async def test_req_emb_005_store_integration(core: Core) -> None:
    requested: list[Job] = []
    clock = wall_clock
    await KnowledgeStore(core.storage, requested.extend, clock=clock).save("k", "known")
    memory = MemoryStore(core.storage, requested.extend, clock=clock)
    await memory.save_observation("s", "seen")
    await memory.save_reflection("s", "concluded")
    await LearningStore(core.storage, requested.extend, clock=clock).save("tool:x", fix="learned")
    assert [job.collection for job in requested] == ["knowledge", "observation", "reflection", "learning"]
    silent = await KnowledgeStore(core.storage, None, clock=clock).save("quiet", "not embedded")
    assert silent.jobs == ()

    def broken(_: Sequence[Job]) -> None:
        raise RuntimeError

    saved = await KnowledgeStore(core.storage, broken, clock=clock).save("kept", "all the same")
    assert (await core.storage.entries.get(saved.id)) is not None


# REQ-EMB-006


async def test_req_emb_006_rag_service(core: Core, provider: Recording) -> None:
    await save(core, key="falcon", content="the falcon nests on the tower")
    await save(core, key="tea", content="tea is at four")
    await save(core, "observation", session="s", content="the falcon was seen")
    await embedded(core)
    assert core.lanes is not None
    builder = core.lanes.leading.builder
    service = RAGService(core.storage, provider, lambda: ServingModel(builder.searched, builder.reason))
    wanted = Filter(namespace="default", collections=("knowledge",))
    answer = await service.retrieve(Question(text="falcon on the tower", filter=wanted, limit=5))
    assert answer.degraded is None
    assert answer.hits[0].content == "the falcon nests on the tower"
    assert {hit.entry.collection for hit in answer.hits} == {"knowledge"}
    distances = [hit.distance for hit in answer.hits if hit.distance is not None]
    assert distances == sorted(distances)


# REQ-EMB-007


async def test_req_emb_007_agent_context_injection(core: Core, provider: Recording) -> None:
    await save(core, key="falcon", content="the falcon nests on the tower")
    await embedded(core)
    assert core.lanes is not None
    builder = core.lanes.leading.builder
    service = RAGService(core.storage, provider, lambda: ServingModel(builder.searched, builder.reason))
    calls: list[list[dict[str, str]]] = []

    async def model(messages: list[dict[str, str]]) -> str:
        calls.append(messages)
        return "on the tower"

    messages = [
        {"role": "system", "content": "You know birds."},
        {"role": "user", "content": "where does the falcon nest?"},
    ]
    for enabled in (True, False):
        settings = RagSettings(enabled=enabled)
        adapter = ContextAwareModelAdapter(
            FunctionModelAdapter(model),
            ServiceContextSource(service, settings),
            enabled=settings.enabled,
            deadline_s=30,
        )
        assert await adapter.complete(messages) == "on the tower"
    given, untouched = calls
    system = [message["content"] for message in given if message["role"] == "system"]
    assert len(system) == 1, "many servers refuse a second system message"
    assert system[0].startswith("You know birds.\n\n## Semantic Context (RAG)\n")
    assert "> the falcon nests on the tower" in system[0]
    assert given[-1] is messages[-1]
    assert untouched is messages
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}
    tools = [*messages, call, {"role": "tool", "tool_call_id": "a", "content": "seen"}]
    fresh = ContextAwareModelAdapter(
        FunctionModelAdapter(model), ServiceContextSource(service), deadline_s=30
    )
    await fresh.complete(tools)
    assert [message["content"] for message in calls[-1] if message["role"] == "system"] == system


# REQ-EMB-008


def test_req_emb_008_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        """
        [embedding]
        provider = "fake"
        model = "m"
        dimensions = 32
        base_url = "http://127.0.0.1:11434"
        [embedding.rag]
        enabled = false
        max_results = 3
        collections = ["learning"]
        max_distance = 0.7
        """,
        encoding="utf-8",
    )
    settings = load_settings(file).embedding
    assert (settings.provider, settings.model, settings.dimensions) == ("fake", "m", 32)
    assert settings.base_url == "http://127.0.0.1:11434"
    assert (settings.rag.enabled, settings.rag.max_results) == (False, 3)
    assert (settings.rag.collections, settings.rag.max_distance) == (("learning",), 0.7)


# REQ-EMB-009


async def test_req_emb_009_doctor_check(core: Core) -> None:
    assert {"embedding.provider", "embedding.key"} <= set(CHECK_IDS)
    reply = await core.examiner.doctor(ME, only=["embedding"])
    found = {check.id: check.status for check in reply.checks}
    assert found["embedding.provider"] == "pass"
    assert found["embedding.key"] == "pass"
