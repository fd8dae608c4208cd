"""The suite of vector stores."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from agentctx.embedding.vector_stores.base import MAX_K, Vector, VectorHit, VectorRecord, VectorStore
from agentctx.errors import InvalidInput
from agentctx.text.chunking import Document, PositionAwareChunk, RecursiveCharacterChunker

DIMENSION = 8
NORTH = [1.0, 0, 0, 0, 0, 0, 0, 0]
NORTH_EAST = [1.0, 1, 0, 0, 0, 0, 0, 0]
EAST = [0.0, 1, 0, 0, 0, 0, 0, 0]
SOUTH = [-1.0, 0, 0, 0, 0, 0, 0, 0]

INVALID = {
    "NaN": [float("nan"), *[1.0] * 7],
    "infinite": [float("inf"), *[1.0] * 7],
    "too big for float32": [1e300, *[1.0] * 7],
    "zero": [0.0] * 8,
    "too short": [1.0] * 7,
    "too long": [1.0] * 9,
    "empty": [],
    "two-dimensional": [NORTH],
    "no numbers": ["x"] * 8,
    "a number": 1.0,
    "None": None,
}


def chunk(chunk_id: str, content: str = "text", **metadata: Any) -> PositionAwareChunk:
    return PositionAwareChunk(chunk_id, content, "doc.md", 10, 50, metadata)


def record(chunk_id: str, vector: Any, *, collection: str = "default", **metadata: Any) -> VectorRecord:
    return VectorRecord(
        chunk=chunk(chunk_id, **metadata),
        embedding=np.asarray(vector, dtype=np.float32),
        collection=collection,
    )


def ids(hits: list[VectorHit]) -> list[str]:
    return [hit.id for hit in hits]


def random_vectors(count: int, dimension: int, seed: int = 7) -> Vector:
    return np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)


class VectorStoreConformance:
    """Expects a fixture `store`: an empty store for vectors of length `DIMENSION`."""

    @pytest.fixture
    async def filled(self, store: VectorStore) -> VectorStore:
        await store.upsert([record("north", NORTH), record("east", EAST), record("south", SOUTH)])
        return store

    # Scenarios of REQ-EMB-002.

    async def test_given_a_record_when_upsert_is_called_then_it_is_stored_and_retrievable(
        self, store: VectorStore
    ) -> None:
        metadata = {"tag": "a", "n": 1, "ratio": 0.5, "ok": True, "none": None, "list": [1, {"x": "y"}]}
        await store.upsert([record("r1", NORTH, collection="knowledge", **metadata)])
        (hit,) = await store.search(NORTH, 1, collection="knowledge")
        assert (hit.id, hit.content, hit.doc_id, hit.start, hit.end) == ("r1", "text", "doc.md", 10, 50)
        assert (dict(hit.metadata), hit.collection) == (metadata, "knowledge")
        assert hit.distance == pytest.approx(0, abs=1e-6)

    async def test_given_an_existing_id_when_upsert_is_called_then_the_previous_record_is_replaced(
        self, store: VectorStore
    ) -> None:
        await store.upsert([record("r1", NORTH, version=1), record("r2", EAST)])
        await store.upsert([record("r1", SOUTH, version=2)])
        hits = await store.search(SOUTH, 10)
        assert ids(hits) == ["r1", "r2"]
        assert dict(hits[0].metadata) == {"version": 2}
        assert await store.search(SOUTH, 10, where={"version": 1}) == []

    async def test_given_stored_vectors_when_searched_then_results_are_sorted_by_distance_ascending(
        self, filled: VectorStore
    ) -> None:
        hits = await filled.search(NORTH, 10)
        assert ids(hits) == ["north", "east", "south"]
        assert [hit.distance for hit in hits] == pytest.approx([0, 1, 2], abs=1e-6)

    async def test_given_stored_records_when_delete_is_called_with_ids_then_those_are_removed(
        self, filled: VectorStore
    ) -> None:
        await filled.delete("default", ["north", "south", "unknown"])
        (left,) = await filled.search(NORTH, 10)
        assert left.id == "east"
        assert left.distance == pytest.approx(1, abs=1e-6)
        await filled.delete("default", [])
        await filled.delete("elsewhere", ["east"])
        assert ids(await filled.search(NORTH, 10)) == ["east"]

    # Scenarios of the VectorStore interface.

    async def test_add_and_search_returns_relevant_chunks(self, store: VectorStore) -> None:
        await store.add([chunk("a"), chunk("b"), chunk("c")], [EAST, NORTH, SOUTH])
        assert ids(await store.search(NORTH_EAST, 2)) in (["a", "b"], ["b", "a"])
        assert ids(await store.search(NORTH, 2)) == ["b", "a"]

    async def test_clear_removes_all_data(self, filled: VectorStore) -> None:
        await filled.upsert([record("x", NORTH, collection="other")])
        await filled.clear()
        assert await filled.search(NORTH, 10) == []
        await filled.upsert([record("again", NORTH)])
        assert ids(await filled.search(NORTH, 10)) == ["again"]

    async def test_cosine_similarity_ranking(self, filled: VectorStore) -> None:
        # Only the direction counts, not the length.
        await filled.upsert([record("far away but same direction", np.multiply(NORTH_EAST, 1_000))])
        assert ids(await filled.search(NORTH_EAST, 1)) == ["far away but same direction"]

    async def test_positions_preserved_through_storage(self, store: VectorStore) -> None:
        await store.add([PositionAwareChunk("c", "x", "doc.md", 10, 50)], [NORTH])
        (hit,) = await store.search(NORTH)
        assert (hit.start, hit.end, hit.doc_id) == (10, 50, "doc.md")

    # Edge cases.

    async def test_an_empty_store_finds_nothing(self, store: VectorStore) -> None:
        assert await store.search(NORTH) == []
        assert await store.search(NORTH, collection="no such", where={"a": 1}) == []
        await store.clear()
        await store.clear("no such")
        await store.upsert([])
        await store.add([], [])
        assert await store.search(NORTH) == []

    async def test_k_larger_than_the_store_returns_everything(self, filled: VectorStore) -> None:
        assert len(await filled.search(NORTH, MAX_K)) == 3

    async def test_k_is_5_by_default(self, store: VectorStore) -> None:
        await store.upsert([record(str(number), NORTH) for number in range(9)])
        assert len(await store.search(NORTH)) == 5

    @pytest.mark.parametrize("k", [0, -1, MAX_K + 1, True, 2.0])
    async def test_an_invalid_k_is_refused(self, filled: VectorStore, k: Any) -> None:
        with pytest.raises(InvalidInput):
            await filled.search(NORTH, k)

    async def test_equal_distances_have_a_stable_order(self, store: VectorStore) -> None:
        numbers = np.random.default_rng(3).permutation(40)
        await store.upsert([record(f"{number:02}", NORTH) for number in numbers])
        for k in (7, 100):
            assert ids(await store.search(NORTH, k)) == ids(await store.search(NORTH, k))

    async def test_a_replaced_record_is_not_found_by_its_old_metadata(self, store: VectorStore) -> None:
        await store.upsert([record("r", NORTH, old="x", kept=1)])
        await store.upsert([record("r", NORTH, kept=1)])
        assert await store.search(NORTH, where={"old": "x"}) == []
        assert ids(await store.search(NORTH, where={"kept": 1})) == ["r"]
        await store.upsert([record("r", NORTH)])
        assert await store.search(NORTH, where={"kept": 1}) == []
        (hit,) = await store.search(NORTH)
        assert dict(hit.metadata) == {}

    async def test_a_deleted_record_can_be_stored_again(self, filled: VectorStore) -> None:
        await filled.delete("default", ["north"])
        await filled.upsert([record("north", SOUTH, again=True)])
        hits = await filled.search(SOUTH, 2)
        assert sorted(ids(hits)) == ["north", "south"]
        assert [hit.distance for hit in hits] == pytest.approx([0, 0], abs=1e-6)

    async def test_collections_are_separate(self, store: VectorStore) -> None:
        await store.upsert(
            [record("same", NORTH, collection="a"), record("same", NORTH, collection="b"), record("c", NORTH)]
        )
        assert [hit.collection for hit in await store.search(NORTH, collection="a")] == ["a"]
        await store.delete("a", ["same"])
        assert await store.search(NORTH, collection="a") == []
        await store.clear("b")
        assert ids(await store.search(NORTH, 10)) == ["c"]

    async def test_a_small_collection_is_found_despite_many_nearer_records(self, store: VectorStore) -> None:
        await store.upsert([record(str(number), NORTH, collection="big") for number in range(300)])
        await store.upsert([record("far", SOUTH, collection="small")])
        assert ids(await store.search(NORTH, 1, collection="small")) == ["far"]

    async def test_add_appends(self, store: VectorStore) -> None:
        await store.add([chunk("a")], [NORTH])
        await store.add([chunk("b")], np.asarray([EAST]), collection="other")
        assert sorted(ids(await store.search(NORTH))) == ["a", "b"]

    async def test_add_refuses_lists_of_different_lengths(self, filled: VectorStore) -> None:
        for chunks, embeddings in (([chunk("a"), chunk("b")], [NORTH]), ([chunk("a")], [NORTH, EAST])):
            with pytest.raises(InvalidInput):
                await filled.add(chunks, embeddings)
        assert len(await filled.search(NORTH, 10)) == 3

    async def test_equal_texts_with_different_ids_are_both_kept(self, store: VectorStore) -> None:
        await store.add([chunk("a", "same"), chunk("b", "same")], [NORTH, NORTH])
        assert sorted(ids(await store.search(NORTH))) == ["a", "b"]

    async def test_add_stores_every_chunk_of_a_repetitive_text(self, store: VectorStore) -> None:
        chunker = RecursiveCharacterChunker(11, 0)
        documents = [Document(name, "same text. " * 3) for name in ("a.md", "b.md")]
        for document in documents:
            chunks = chunker.chunk_with_positions(document)
            await store.add(chunks, [NORTH] * len(chunks))
        places = sorted((hit.doc_id, hit.start, hit.end) for hit in await store.search(NORTH, 10))
        assert places == [(name, 11 * n, 11 * n + 11) for name in ("a.md", "b.md") for n in range(3)]

    async def test_upsert_stores_every_chunk_of_a_repetitive_text(self, store: VectorStore) -> None:
        chunks = RecursiveCharacterChunker(11, 0).chunk_with_positions(Document("a.md", "same text. " * 3))
        embedding = np.asarray(NORTH, dtype=np.float32)
        for _ in range(2):
            await store.upsert([VectorRecord(chunk=each, embedding=embedding) for each in chunks])
        assert sorted(hit.start for hit in await store.search(NORTH, 10)) == [0, 11, 22]

    async def test_add_never_replaces_a_record(self, store: VectorStore) -> None:
        await store.upsert([record("same", NORTH, turn=0)])
        await store.add([chunk("same", turn=1), chunk("same", turn=2)], [NORTH, EAST])
        await store.add([chunk("same", turn=1)], [NORTH])
        hits = await store.search(NORTH, 10)
        assert ids(hits) == ["same"] * 4
        assert sorted(hit.metadata["turn"] for hit in hits) == [0, 1, 1, 2]
        assert [hit.distance for hit in hits] == pytest.approx([0, 0, 0, 1], abs=1e-6)

    async def test_upsert_and_delete_affect_every_record_with_an_id(self, store: VectorStore) -> None:
        await store.add([chunk("same", turn=number) for number in range(3)], [NORTH] * 3)
        await store.add([chunk("same"), chunk("kept")], [NORTH] * 2, collection="other")
        await store.upsert([record("same", SOUTH, turn=9)])
        (hit,) = await store.search(NORTH, 10, collection="default")
        assert hit.metadata["turn"] == 9
        assert hit.distance == pytest.approx(2, abs=1e-6)
        await store.add([chunk("same", turn=10)], [NORTH])
        await store.delete("default", ["same"])
        assert await store.search(NORTH, 10, collection="default") == []
        assert sorted(ids(await store.search(NORTH, 10))) == ["kept", "same"]

    @pytest.mark.parametrize("seed", range(3))
    async def test_any_sequence_of_calls_behaves_like_a_list(self, store: VectorStore, seed: int) -> None:
        rng = np.random.default_rng(seed)
        kept: list[tuple[str, str, int]] = []
        for turn in range(40):
            collection = str(rng.choice(["one", "two"]))
            names = [str(name) for name in rng.choice(list("abcd"), rng.integers(1, 4), replace=False)]
            action = rng.choice(
                ["add", "add", "add", "upsert", "delete", "clear"], p=[0.2] * 4 + [0.15, 0.05]
            )
            if action == "add":
                twice = [*names, names[0]]
                await store.add(
                    [chunk(name, turn=turn) for name in twice], [NORTH] * len(twice), collection=collection
                )
                kept += [(collection, name, turn) for name in twice]
                continue
            kept = [
                each for each in kept if each[0] != collection or (action != "clear" and each[1] not in names)
            ]
            if action == "upsert":
                await store.upsert([record(name, NORTH, collection=collection, turn=turn) for name in names])
                kept += [(collection, name, turn) for name in names]
            elif action == "delete":
                await store.delete(collection, names)
            else:
                await store.clear(collection)
            hits = await store.search(NORTH, 1_000)
            assert sorted((hit.collection, hit.id, hit.metadata["turn"]) for hit in hits) == sorted(kept)

    async def test_the_last_of_equal_ids_in_an_upsert_wins(self, store: VectorStore) -> None:
        await store.upsert([record("a", NORTH, turn=1), record("b", EAST), record("a", SOUTH, turn=2)])
        hits = await store.search(SOUTH, 10)
        assert ids(hits) == ["a", "b"]
        assert dict(hits[0].metadata) == {"turn": 2}

    @pytest.mark.parametrize("vector", INVALID.values(), ids=INVALID.keys())
    async def test_an_invalid_vector_is_refused_and_changes_nothing(
        self, filled: VectorStore, vector: Any
    ) -> None:
        bad = VectorRecord(chunk=chunk("bad"), embedding=vector)
        with pytest.raises(InvalidInput):
            await filled.upsert([record("before", NORTH), record("north", EAST), bad])
        with pytest.raises(InvalidInput):
            await filled.add([chunk("before"), chunk("bad")], [NORTH, vector])
        with pytest.raises(InvalidInput):
            await filled.search(vector)
        assert ids(await filled.search(NORTH, 10)) == ["north", "east", "south"]

    async def test_a_lone_surrogate_is_refused_and_changes_nothing(self, store: VectorStore) -> None:
        await store.upsert([record("a", NORTH)])
        for bad in (
            record("\ud800", EAST),
            VectorRecord(chunk=chunk("b", "\ud800"), embedding=np.asarray(EAST, dtype=np.float32)),
            record("b", EAST, key="\ud800"),
            record("b", EAST, collection="\ud800"),
            record("b", EAST, key=["\ud800"]),
            record("b", EAST, **{"\ud800": "x"}),
        ):
            with pytest.raises(InvalidInput, match="surrogate"):
                await store.upsert([record("before", EAST), bad])
        for call in (
            store.delete("default", ["\ud800"]),
            store.clear("\ud800"),
            store.search(NORTH, collection="\ud800"),
            store.search(NORTH, where={"k": "\ud800" * 300}),
            store.search(NORTH, where={"\ud800": 1}),
        ):
            with pytest.raises(InvalidInput, match="surrogate"):
                await call
        assert ids(await store.search(NORTH)) == ["a"]

    @pytest.mark.parametrize(
        "value", [float("nan"), [float("inf")], {"x": float("nan")}, {1, 2}, object(), b"x"]
    )
    async def test_metadata_that_is_not_json_is_refused(self, store: VectorStore, value: Any) -> None:
        with pytest.raises(InvalidInput, match="JSON"):
            await store.upsert([record("a", NORTH), record("b", NORTH, key=value)])
        assert await store.search(NORTH) == []

    async def test_ragged_embeddings_are_refused_and_change_nothing(self, filled: VectorStore) -> None:
        with pytest.raises(InvalidInput):
            await filled.add([chunk("a"), chunk("b")], [NORTH, [1.0, 2.0]])
        with pytest.raises(InvalidInput):
            await filled.add([chunk("a")], 3.0)
        assert len(await filled.search(NORTH, 10)) == 3

    @pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e30])
    async def test_very_short_and_very_long_vectors_have_a_direction(
        self, filled: VectorStore, scale: float
    ) -> None:
        await filled.upsert([record("scaled", np.multiply(NORTH_EAST, scale))])
        (hit,) = await filled.search(np.multiply(NORTH_EAST, scale), 1)
        assert hit.id == "scaled"
        assert hit.distance == pytest.approx(0, abs=1e-6)

    @pytest.mark.parametrize(
        ("where", "found"),
        [
            ({"text": "x"}, ["a"]),
            ({"number": 1}, ["a"]),
            ({"number": 1.0}, ["a"]),
            ({"number": True}, []),
            ({"flag": True}, ["a"]),
            ({"flag": 1}, []),
            ({"flag": False}, ["b"]),
            ({"number": 0}, ["b"]),
            ({"half": 0.1}, ["b"]),
            ({"nothing": None}, ["a"]),
            ({"text": "x", "flag": False}, []),
            ({"text": "X"}, []),
            ({"text": "1"}, []),
            ({"number": "1"}, []),
            ({"missing": "x"}, []),
            ({"list": "x"}, []),
            ({'odd "key".[0]$\\': "'; --"}, ["b"]),
            ({"ключ": "文字🎈"}, ["b"]),
            ({}, ["a", "b", "c"]),
        ],
    )
    async def test_where_matches_equal_metadata_values(
        self, store: VectorStore, where: dict[str, Any], found: list[str]
    ) -> None:
        await store.upsert(
            [
                record("a", NORTH, text="x", number=1, flag=True, nothing=None, list=["x"]),
                record("b", EAST, number=0, flag=False, half=0.1),
                record("c", SOUTH),
            ]
        )
        odd = {'odd "key".[0]$\\': "'; --", "ключ": "文字🎈"}
        await store.upsert([record("b", EAST, number=0, flag=False, half=0.1, **odd)])
        assert ids(await store.search(NORTH, 10, where=where)) == found

    async def test_where_finds_a_far_record_among_many_near_ones(self, store: VectorStore) -> None:
        await store.upsert([record(str(number), NORTH) for number in range(500)])
        await store.upsert(
            [record("far", SOUTH, wanted=True), record("other", SOUTH, collection="o", wanted=True)]
        )
        assert ids(await store.search(NORTH, 1, collection="default", where={"wanted": True})) == ["far"]

    @pytest.mark.parametrize("value", [["x"], {"a": 1}, float("nan"), float("inf"), 2**63, object()])
    async def test_where_accepts_only_scalars(self, filled: VectorStore, value: Any) -> None:
        with pytest.raises(InvalidInput):
            await filled.search(NORTH, where={"key": value})

    @pytest.mark.parametrize(
        "content", ["", "日本語 🎈 e\u0301", "a\0b", "'; DROP TABLE vector_records; --", "é" * 100_000]
    )
    async def test_any_text_is_returned_unchanged(self, store: VectorStore, content: str) -> None:
        await store.upsert(
            [
                VectorRecord(
                    chunk=PositionAwareChunk(content[:50], content, content[:9], 0, 1, {"k": content[:99]}),
                    embedding=np.asarray(NORTH, dtype=np.float32),
                    collection=content[:20],
                )
            ]
        )
        (hit,) = await store.search(NORTH, collection=content[:20])
        assert (hit.id, hit.content, hit.doc_id) == (content[:50], content, content[:9])
        assert dict(hit.metadata) == {"k": content[:99]}
        await store.delete(content[:20], [content[:50]])
        assert await store.search(NORTH) == []

    async def test_concurrent_upserts_and_searches(self, store: VectorStore) -> None:
        vectors = random_vectors(80, DIMENSION)

        async def write(start: int) -> None:
            for number in range(start, start + 10):
                await store.upsert([record(str(number), vectors[number])])

        async def read() -> None:
            for number in range(10):
                distances = [hit.distance for hit in await store.search(vectors[number], 50)]
                assert distances == sorted(distances)

        await asyncio.gather(*(write(start) for start in range(0, 80, 10)), *(read() for _ in range(5)))
        hits = await store.search(NORTH, 1_000)
        assert sorted(ids(hits)) == sorted(map(str, range(80)))

    async def test_concurrent_deletes_and_upserts(self, store: VectorStore) -> None:
        vectors = random_vectors(100, DIMENSION)
        await store.upsert([record(str(number), vectors[number]) for number in range(100)])
        await asyncio.gather(
            store.delete("default", [str(number) for number in range(0, 100, 2)]),
            *(store.upsert([record(str(number), -vectors[number])]) for number in range(1, 100, 2)),
        )
        for number in range(1, 100, 2):
            (hit,) = await store.search(-vectors[number], 1)
            assert hit.id == str(number)
            assert hit.distance == pytest.approx(0, abs=1e-5)
        assert len(await store.search(NORTH, 1_000)) == 50

    async def test_ten_thousand_records_are_ranked_as_by_numpy(self, store: VectorStore) -> None:
        vectors, queries = random_vectors(10_000, DIMENSION), random_vectors(20, DIMENSION, seed=8)
        await store.upsert([record(str(number), vector) for number, vector in enumerate(vectors)])
        units = vectors.astype(np.float64) / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        for query in queries:
            distances = 1 - units @ (query / np.linalg.norm(query))
            expected = np.argsort(distances, kind="stable")[:10]
            hits = await store.search(query, 10)
            assert ids(hits) == [str(number) for number in expected]
            assert [hit.distance for hit in hits] == pytest.approx(distances[expected].tolist(), abs=1e-5)
