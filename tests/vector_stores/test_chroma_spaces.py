"""The daemon's vectors in Chroma: on a real server, and embedded."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromadb.api.models.Collection import Collection

from agentctx.errors import InvalidInput, StorageClosed, StorageFailed
from agentctx.vector_stores.chroma_spaces import ROWS_A_REQUEST, ChromaSpaces
from agentctx.vector_stores.outside import ChunkVector, OutsideVectors
from tests import chroma_server
from tests.ports import free_port

SPACE = 7
QUERY = np.array([1, 0, 0, 0], np.float32)


def stored(
    chunk: int, *numbers: float, namespace: str = "default", collection: str = "knowledge", session: str = ""
) -> ChunkVector:
    vector = np.array([*numbers, 0, 0, 0, 0][:4], np.float32)
    return ChunkVector(chunk, namespace, collection, session, vector / np.linalg.norm(vector))


def found(hits: list[tuple[int, float]]) -> list[int]:
    return [chunk for chunk, _ in hits]


@pytest.fixture(params=["server", "embedded"])
async def spaces(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ChromaSpaces]:
    prefix = f"t{uuid.uuid4().hex[:8]}-"
    if request.param == "server":
        port = request.getfixturevalue("chroma_port")
        opened = await ChromaSpaces.open(prefix=prefix, url=f"http://127.0.0.1:{port}")
    else:
        opened = await ChromaSpaces.open(prefix=prefix, path=tmp_path / "chroma")
    yield opened
    await opened.aclose()


async def test_the_nearest_of_the_namespace_come_first(spaces: OutsideVectors) -> None:
    await spaces.upsert(
        SPACE, [stored(1, 1), stored(2, 1, 1), stored(3, 0, 1), stored(4, 1, namespace="other")]
    )
    hits = await spaces.nearest(SPACE, QUERY, 10, namespace="default")
    assert found(hits) == [1, 2, 3]
    assert [distance for _, distance in hits] == pytest.approx([0, 1 - 2**-0.5, 1], abs=1e-6)


async def test_filters_narrow_before_the_limit_counts(spaces: OutsideVectors) -> None:
    await spaces.upsert(
        SPACE,
        [
            *(stored(chunk, 1) for chunk in range(1, 60)),
            stored(90, 0, 1, collection="learning"),
            stored(91, 0, 1, session="s1"),
            stored(92, 0, 1, session="s2"),
        ],
    )

    async def ask(**narrower: object) -> list[int]:
        return found(await spaces.nearest(SPACE, QUERY, 3, namespace="default", **narrower))  # type: ignore[arg-type]

    assert await ask(collections=["learning", "observation"]) == [90]
    assert await ask(among=[92, 91, 500]) == [91, 92]
    assert 92 not in found(await spaces.nearest(SPACE, QUERY, 100, namespace="default", session="s1"))
    assert 91 in found(await spaces.nearest(SPACE, QUERY, 100, namespace="default", session="s1"))


async def test_named_chunks_are_not_narrowed_again(
    spaces: OutsideVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chroma needs seconds for a hundred ids beside a condition, and minutes for thousands."""
    conditions: list[object] = []

    def noted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(collection: Collection, *args: Any, **options: Any) -> Any:
            if options.get("ids") is not None:
                conditions.append(options.get("where"))
            return method(collection, *args, **options)

        return call

    await spaces.upsert(SPACE, [stored(chunk, 1, chunk, session="s1") for chunk in range(1, 6)])
    for name in ("query", "get", "delete"):
        monkeypatch.setattr(Collection, name, noted(getattr(Collection, name)))
    narrower = {"collections": ["knowledge"], "session": "s1", "among": [5, 2, 500]}
    hits = await spaces.nearest(SPACE, QUERY, 3, namespace="default", **narrower)  # type: ignore[arg-type]
    await spaces.delete(SPACE, [5])
    assert found(hits) == [2, 5]
    assert conditions
    assert not any(conditions)


async def test_a_named_chunk_may_go_while_its_neighbours_are_searched(
    spaces: OutsideVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    await spaces.upsert(SPACE, [stored(chunk, 1, chunk) for chunk in (1, 2, 3)])
    query = Collection.query

    def query_after_a_removal(collection: Collection, **options: Any) -> Any:
        collection.delete(ids=["2"])
        return query(collection, **options)

    monkeypatch.setattr(Collection, "query", query_after_a_removal)
    assert found(await spaces.nearest(SPACE, QUERY, 3, namespace="default", among=[3, 2, 1])) == [1, 3]


async def test_a_second_upsert_replaces_and_a_delete_removes(spaces: OutsideVectors) -> None:
    await spaces.upsert(SPACE, [stored(1, 1), stored(2, 1, 1)])
    await spaces.upsert(SPACE, [stored(1, 0, 1)])
    await spaces.delete(SPACE, [2, 99])
    assert await spaces.distances(SPACE, QUERY, [1, 2, 99]) == {1: pytest.approx(1)}
    assert await spaces.places(SPACE) == {1: ("default", "knowledge", "")}


async def test_spaces_share_nothing(spaces: OutsideVectors) -> None:
    await spaces.upsert(SPACE, [stored(1, 1)])
    wide = ChunkVector(2, "default", "knowledge", "", np.eye(1, 8, dtype=np.float32)[0])
    await spaces.upsert(SPACE + 1, [wide])
    await spaces.drop(SPACE)
    assert await spaces.places(SPACE) == {}
    assert found(await spaces.nearest(SPACE + 1, wide.vector, 5, namespace="default")) == [2]
    await spaces.drop(SPACE)
    await spaces.upsert(SPACE, [wide])
    assert list(await spaces.places(SPACE)) == [2]


async def test_more_than_a_request_holds(spaces: OutsideVectors) -> None:
    count = 2 * ROWS_A_REQUEST + 3
    await spaces.upsert(SPACE, [stored(chunk, 1, chunk / count) for chunk in range(count)])
    assert sorted(await spaces.places(SPACE)) == list(range(count))
    assert len(await spaces.distances(SPACE, QUERY, range(count))) == count
    assert found(await spaces.nearest(SPACE, QUERY, 2, namespace="default", among=range(5, count))) == [5, 6]
    await spaces.delete(SPACE, range(count - 1))
    assert list(await spaces.places(SPACE)) == [count - 1]


async def test_equal_vectors_are_all_found(spaces: OutsideVectors) -> None:
    await spaces.upsert(SPACE, [stored(chunk, 1) for chunk in range(300)])
    assert len(await spaces.nearest(SPACE, QUERY, 300, namespace="default")) == 300


async def test_vectors_of_another_length_are_faulty_and_refused(spaces: OutsideVectors) -> None:
    await spaces.upsert(SPACE, [stored(1, 1)])
    assert await spaces.faulty(SPACE, 4) == []
    assert await spaces.faulty(SPACE, 8) == [1]
    with pytest.raises(StorageFailed):
        await spaces.upsert(SPACE, [ChunkVector(2, "n", "c", "", np.eye(1, 8, dtype=np.float32)[0])])


async def test_an_empty_space_answers(spaces: OutsideVectors) -> None:
    assert await spaces.nearest(SPACE, QUERY, 5, namespace="default") == []
    assert await spaces.nearest(SPACE, QUERY, 5, namespace="default", among=[1]) == []
    assert await spaces.distances(SPACE, QUERY, [1]) == {}
    assert await spaces.faulty(SPACE, 4) == []


async def test_a_server_that_is_not_there_fails_and_may_come_back(tmp_path: Path) -> None:
    port = free_port()
    spaces = await ChromaSpaces.open(prefix="late-", url=f"http://127.0.0.1:{port}")
    try:
        with pytest.raises(StorageFailed):
            await spaces.upsert(SPACE, [stored(1, 1)])
        with chroma_server.running(tmp_path, port):
            await spaces.upsert(SPACE, [stored(1, 1)])
            assert list(await spaces.places(SPACE)) == [1]
        with pytest.raises(StorageFailed):
            await spaces.places(SPACE)
    finally:
        await spaces.aclose()


async def test_closed_is_closed(spaces: ChromaSpaces) -> None:
    await spaces.aclose()
    await spaces.aclose()
    with pytest.raises(StorageClosed):
        await spaces.places(SPACE)


async def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput):
        await ChromaSpaces.open(prefix="x-", url="chroma.example")
