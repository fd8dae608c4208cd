from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentctx.embedding.vector_stores.chroma import ChromaVectorStore
from agentctx.embedding.vector_stores.chroma_client import close, collection_name, parse_url
from agentctx.embedding.vector_stores.chroma_rows import VanishedRow, hit_of
from agentctx.errors import ConfigInvalid, InvalidInput, StorageClosed, StorageFailed
from agentctx.text.chunking.base import PositionAwareChunk
from agentctx_testing.conformance.vector_stores import (
    DIMENSION,
    EAST,
    NORTH,
    SOUTH,
    VectorStoreConformance,
    chunk,
    ids,
    record,
)
from tests.embedding.vector_stores import chroma_server
from tests.ports import free_port


@pytest.fixture(scope="module")
def chroma_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a running Chroma server."""
    port = free_port()
    with chroma_server.running(tmp_path_factory.mktemp("chroma-server"), port):
        yield port


@contextmanager
def own_client(port: int) -> Iterator[Any]:
    import chromadb  # late: every process collects these tests

    client = chromadb.HttpClient(host="127.0.0.1", port=port)
    try:
        yield client
    finally:
        close(client)


class TestServer(VectorStoreConformance):
    @pytest.fixture
    async def store(self, chroma_port: int) -> AsyncIterator[ChromaVectorStore]:
        store = await ChromaVectorStore.open(
            url=f"http://127.0.0.1:{chroma_port}", chroma_collection="conformance", dimension=DIMENSION
        )
        yield store
        await store.clear()
        await store.aclose()


@pytest.mark.slow  # the server runs the same code
class TestEmbedded(VectorStoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ChromaVectorStore]:
        store = await ChromaVectorStore.open(path=tmp_path / "chroma", dimension=DIMENSION)
        yield store
        await store.aclose()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ChromaVectorStore]:
    store = await ChromaVectorStore.open(path=tmp_path / "chroma")
    yield store
    await store.aclose()


class TestOpening:
    async def test_records_survive_reopening(self, tmp_path: Path) -> None:
        for _ in range(2):
            store = await ChromaVectorStore.open(path=tmp_path, dimension=DIMENSION)
            await store.upsert([record("a", NORTH, tag="x")])
            await store.aclose()
        store = await ChromaVectorStore.open(path=tmp_path)
        assert store.dimension == DIMENSION
        assert ids(await store.search(NORTH, where={"tag": "x"})) == ["a"]
        await store.aclose()

    async def test_another_dimension_is_refused(self, tmp_path: Path) -> None:
        store = await ChromaVectorStore.open(path=tmp_path)
        await store.upsert([record("a", NORTH)])
        await store.aclose()
        with pytest.raises(InvalidInput, match="length 8, not 3"):
            await ChromaVectorStore.open(path=tmp_path, dimension=3)

    async def test_the_first_record_sets_the_dimension(self, store: ChromaVectorStore) -> None:
        assert await store.search([1.0, 2.0]) == []
        with pytest.raises(InvalidInput):
            await store.upsert([record("a", [1.0, 2.0]), record("b", [1.0, 2.0, 3.0])])
        assert store.dimension is None
        await store.upsert([record("a", NORTH)])
        with pytest.raises(InvalidInput):
            await store.search([1.0, 2.0])

    async def test_different_chroma_collections_are_separate(self, chroma_port: int) -> None:
        one, other = [
            await ChromaVectorStore.open(host="127.0.0.1", port=chroma_port, chroma_collection=name)
            for name in ("one-of-two", "other-of-two")
        ]
        await one.upsert([record("a", NORTH)])
        await other.upsert([record("b", [1.0, 2.0])])
        assert ids(await one.search(NORTH)) == ["a"]
        await other.clear()
        assert ids(await one.search(NORTH)) == ["a"]
        await one.aclose()
        await other.aclose()

    @pytest.mark.parametrize(
        "name", ["t1", "a", "my notes", "заметки", "a..b", "10.0.0.1", "", ".x", "x" * 513, "\ud800"]
    )
    async def test_any_text_can_name_a_chroma_collection(self, tmp_path: Path, name: str) -> None:
        for turn in range(2):
            store = await ChromaVectorStore.open(path=tmp_path, chroma_collection=name)
            await store.add([chunk(f"{turn}")], [NORTH])
            found = ids(await store.search(NORTH))
            await store.aclose()
        assert found == ["0", "1"]

    def test_valid_names_are_kept_and_all_others_stay_distinct(self) -> None:
        for name in ("abc", "my.notes_1-x", "A" * 512):
            assert collection_name(name) == name
        others = ["t1", "t.1.", "t 1", "t-1-", "t1 ", "日本", "中国", ""]
        assert len({collection_name(name) for name in others}) == len(others)
        assert collection_name("my notes!").startswith("my-notes-")

    async def test_a_client_passed_in_stays_open(self, chroma_port: int) -> None:
        with own_client(chroma_port) as client:
            store = await ChromaVectorStore.open(client=client, chroma_collection="passed")
            await store.upsert([record("a", NORTH)])
            await store.aclose()
            assert client.get_collection("passed").count() == 1

    async def test_an_async_client_is_refused(self) -> None:
        class Client:
            async def get_or_create_collection(self) -> None: ...

        with pytest.raises(InvalidInput, match="blocking"):
            await ChromaVectorStore.open(client=Client())

    @pytest.mark.parametrize("places", [{}, {"path": "a", "url": "http://b"}, {"host": "a", "client": 1}])
    async def test_exactly_one_location_must_be_given(self, places: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match="exactly one"):
            await ChromaVectorStore.open(**places)

    async def test_a_collection_with_another_metric_is_refused(self, chroma_port: int) -> None:
        with own_client(chroma_port) as client:
            client.get_or_create_collection("by-l2", embedding_function=None)
            with pytest.raises(InvalidInput, match="l2"):
                await ChromaVectorStore.open(client=client, chroma_collection="by-l2")

    async def test_an_unreachable_server_is_reported_without_secrets(self) -> None:
        port = free_port()
        with pytest.raises(StorageFailed) as caught:
            await ChromaVectorStore.open(url=f"http://127.0.0.1:{port}", headers={"x-token": "s3cret"})
        assert "running" in caught.value.hint
        assert "s3cret" not in str(caught.value) + repr(caught.value.__cause__)

    async def test_calls_after_close_fail(self, tmp_path: Path) -> None:
        store = await ChromaVectorStore.open(path=tmp_path)
        await store.aclose()
        await store.aclose()
        for call in (store.search(NORTH), store.upsert([record("a", NORTH)]), store.clear()):
            with pytest.raises(StorageClosed):
                await call

    async def test_telemetry_is_off(self, store: ChromaVectorStore) -> None:
        assert store._client.get_settings().anonymized_telemetry is False

    @pytest.mark.parametrize(
        ("url", "parts"),
        [
            ("http://chroma", ("chroma", 8000, False)),
            ("http://127.0.0.1:9/", ("127.0.0.1", 9, False)),
            ("https://c.example", ("c.example", 443, True)),
        ],
    )
    def test_a_url_is_parsed(self, url: str, parts: tuple[str, int, bool]) -> None:
        assert parse_url(url) == parts

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "chroma:8000",
            "ftp://a",
            "http://",
            "http://u:s3cret@a",
            "http://a/b",
            "http://a:x",
            "http://[a",
        ],
    )
    def test_an_invalid_url_is_refused_but_not_repeated(self, url: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            parse_url(url)
        assert "s3cret" not in caught.value.message


class TestRecords:
    async def test_positions_are_stored_in_chromas_metadata(self, chroma_port: int) -> None:
        with own_client(chroma_port) as client:
            store = await ChromaVectorStore.open(client=client, chroma_collection="positions")
            await store.add([PositionAwareChunk("c", "x", "doc.md", 10, 50)], [NORTH])
            (metadata,) = client.get_collection("positions").get()["metadatas"]
        assert (metadata["start"], metadata["end"], metadata["doc_id"]) == (10, 50, "doc.md")

    async def test_metadata_may_use_the_names_of_internal_fields(self, store: ChromaVectorStore) -> None:
        metadata = dict.fromkeys(("doc_id", "start", "end", "metadata", "terms", "$and"), "mine")
        await store.upsert([record("a", NORTH, **metadata), record("b", NORTH)])
        (hit,) = await store.search(NORTH, where={"start": "mine", "$and": "mine"})
        assert (hit.id, hit.start, dict(hit.metadata)) == ("a", 10, metadata)

    async def test_a_large_upsert_is_split_into_requests(self, store: ChromaVectorStore) -> None:
        store._max_rows = 7
        await store.upsert([record(str(number), NORTH) for number in range(20)])
        assert len(await store.search(NORTH, 50)) == 20
        await store.delete("default", [str(number) for number in range(15)])
        assert sorted(ids(await store.search(NORTH, 50))) == ["15", "16", "17", "18", "19"]

    async def test_foreign_records_are_an_error(self, chroma_port: int) -> None:
        with own_client(chroma_port) as client:
            store = await ChromaVectorStore.open(client=client, chroma_collection="foreign")
            client.get_collection("foreign").add(ids=["x"], embeddings=[NORTH], documents=["text"])
            with pytest.raises(StorageFailed, match="not written by agentctx"):
                await store.search(NORTH)

    async def test_equal_distances_are_ordered_by_id_for_every_k(self, store: ChromaVectorStore) -> None:
        numbers = [7, 3, 11, 0, 5, 9, 1, 10, 2, 8, 4, 6]
        await store.upsert([record(f"{number:02}", NORTH) for number in numbers])
        await store.upsert([record("far", EAST)])
        for k in (1, 7, 11, 12):
            assert ids(await store.search(NORTH, k)) == [f"{number:02}" for number in range(k)]


class TestTwoStores:
    async def test_a_store_continues_after_another_cleared_the_collection(self, chroma_port: int) -> None:
        one, other = [
            await ChromaVectorStore.open(host="127.0.0.1", port=chroma_port, chroma_collection="shared")
            for _ in range(2)
        ]
        await one.upsert([record("a", NORTH)])
        assert ids(await other.search(NORTH)) == ["a"]
        await other.clear()
        assert await one.search(NORTH) == []
        await one.upsert([record("b", SOUTH)])
        assert ids(await other.search(NORTH)) == ["b"]
        await one.aclose()
        await other.aclose()

    async def test_searches_during_a_clear_do_not_fail(self, chroma_port: int) -> None:
        store = await ChromaVectorStore.open(host="127.0.0.1", port=chroma_port, chroma_collection="cleared")
        await store.upsert([record("a", NORTH)])
        await asyncio.gather(*(store.search(NORTH) for _ in range(8)), store.clear())
        assert await store.search(NORTH) == []
        await store.aclose()


def test_a_row_without_metadata_is_vanishing_but_a_foreign_one_is_an_error() -> None:
    with pytest.raises(VanishedRow):
        hit_of('["knowledge", "a"]', "text", None, 0.1)
    for stored_id, metadata in (("x", None), ('["knowledge", "a"]', {"other": 1})):
        with pytest.raises(StorageFailed, match="not written by agentctx"):
            hit_of(stored_id, "text", metadata, 0.1)


async def test_without_chromadb_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "chromadb", None)
    with pytest.raises(ConfigInvalid) as caught:
        await ChromaVectorStore.open(path=tmp_path)
    assert "install chromadb" in caught.value.hint
