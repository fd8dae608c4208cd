"""What a cache of vectors finds, compared with a full scan."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.storage.sqlite.vectors.vector_cache import (
    ROWS_PER_BLOCK,
    SPARE,
    ScoredChunks,
    ScoredRun,
    StoredVector,
    VectorCache,
    rounded,
    similarities,
)
from agentctx.storage.vectors import Vectors

DIMENSION = 8
NAMES = ("a", "b", "c")
PLACES = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(("", "s", "t")))


def random_vectors(count: int, dimension: int, seed: int) -> Vectors:
    drawn = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)


def stored(vectors: Vectors, places: Sequence[tuple[str, str, str]] | None = None) -> list[StoredVector]:
    """Return rows with the seqs 1, 2, … and the chunks 101, 102, …"""
    places = places or [("a", "b", "")] * len(vectors)
    return [
        StoredVector(number, 100 + number, *place, vector.tobytes())
        for number, (place, vector) in enumerate(zip(places, vectors, strict=True), 1)
    ]


def cache_of(rows: Sequence[StoredVector], dimension: int = DIMENSION) -> VectorCache:
    cache = VectorCache(dimension)
    cache.put(rows, max((row.seq for row in rows), default=0))
    return cache


def candidates_in(cache: VectorCache, limit: int, namespace: str = "a", seed: int = 0) -> list[int]:
    return cache.score(random_vectors(1, cache.dimension, seed)[0], namespace=namespace).candidates(limit)


@given(st.lists(PLACES, max_size=60), st.integers(0, 2**32 - 1), st.integers(1, 70), st.data())
def test_the_nearest_matches_are_among_the_candidates(
    places: list[tuple[str, str, str]], seed: int, limit: int, data: st.DataObject
) -> None:
    vectors = random_vectors(len(places) + 1, DIMENSION, seed)
    rows, query = stored(vectors[1:], places), vectors[0]
    chunks = st.sets(st.integers(101, 100 + max(1, len(rows))))
    collections = data.draw(st.none() | st.lists(st.sampled_from((*NAMES, "unknown")), max_size=3))
    session = data.draw(st.none() | st.sampled_from(("s", "unknown")))
    among = data.draw(st.none() | chunks)
    excluded = data.draw(chunks)
    wanted = [
        row
        for row in rows
        if row.namespace == "a"
        and (collections is None or row.collection in collections)
        and (session is None or row.session in (session, ""))
        and (among is None or row.chunk in among)
        and row.chunk not in excluded
    ]
    scored = cache_of(rows).score(
        query,
        namespace="a",
        collections=collections,
        session=session,
        among=None if among is None else sorted(among),
        left_out=excluded,
    )
    candidates = scored.candidates(limit)
    nearest = sorted(wanted, key=lambda row: -float(np.frombuffer(row.vector, np.float32) @ query))[:limit]
    assert scored.count == len(wanted)
    assert {row.chunk for row in nearest} <= set(candidates)
    assert set(candidates) <= {row.chunk for row in wanted}
    assert len(candidates) <= limit + SPARE


@pytest.mark.parametrize(("dimension", "kind"), [(384, "random"), (384, "clustered"), (3, "random")])
def test_none_of_the_nearest_of_ten_thousand_is_missed(dimension: int, kind: str) -> None:
    vectors = random_vectors(10_000, dimension, seed=5)
    if kind == "clustered":
        vectors = vectors[np.arange(10_000) % 100] + 0.4 * vectors
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cache = cache_of(stored(vectors), dimension)
    missed = 0
    for query in random_vectors(40, dimension, seed=6):
        nearest = np.argsort(-(vectors @ query))[:40] + 101
        missed += len(set(nearest.tolist()) - set(cache.score(query, namespace="a").candidates(40)))
    assert missed == 0


@pytest.mark.parametrize("every", [1, 2, 50])
def test_dense_and_sparse_matches_are_both_found(every: int) -> None:
    """Dense matches are scanned together with what lies between them; sparse ones are gathered."""
    vectors = random_vectors(20_000, DIMENSION, seed=4)
    places = [("a" if number % every == 0 else "b", "b", "") for number in range(20_000)]
    cache = cache_of(stored(vectors, places))
    query = random_vectors(1, DIMENSION, seed=9)[0]
    mine = np.arange(0, 20_000, every)
    nearest = mine[np.argsort(-(vectors[mine] @ query))[:10]] + 101
    candidates = cache.score(query, namespace="a").candidates(10)
    assert set(nearest.tolist()) <= set(candidates)
    assert all((chunk - 101) % every == 0 for chunk in candidates)


def test_rows_in_several_blocks_are_all_found() -> None:
    rows = stored(random_vectors(2 * ROWS_PER_BLOCK + 7, 2, seed=1))
    scored = cache_of(rows, 2).score(np.array([1, 0], np.float32), namespace="a")
    assert sorted(scored.candidates(len(rows))) == [row.chunk for row in rows]


@given(st.integers(0, 2**32 - 1), st.integers(1, 400), st.floats(1e-3, 1e3))
def test_rounding_preserves_the_direction(seed: int, dimension: int, length: float) -> None:
    vectors = random_vectors(3, dimension, seed)
    codes, scales = rounded(vectors * np.float32(length))
    close = similarities(codes, scales, *rounded(vectors[:1]))
    assert close == pytest.approx(vectors @ vectors[0], abs=0.01)


def test_several_threads_find_the_same() -> None:
    codes, scales = rounded(random_vectors(5_000, 384, seed=2))
    query = codes[7:8], scales[7:8]
    assert np.array_equal(similarities(codes, scales, *query, threads=3), similarities(codes, scales, *query))


def test_a_scan_takes_no_reference_to_none() -> None:
    """A daemon whose scans drop references they do not own ends with "deallocating None"."""
    cache = cache_of(stored(random_vectors(3, DIMENSION, seed=2)))
    before, scans = sys.getrefcount(None), 1_000
    for _ in range(scans):
        candidates_in(cache, 2)
    assert sys.getrefcount(None) > before - scans / 2


@pytest.mark.parametrize("value", [0, np.nan, np.inf, -np.inf])
def test_a_vector_without_direction_does_not_displace_others(value: float) -> None:
    vectors = random_vectors(4, DIMENSION, seed=2)
    vectors[1] = value
    codes, scales = rounded(vectors)
    assert not codes[1].any()
    assert scales[1] == 0
    scored = cache_of(stored(vectors)).score(vectors[0], namespace="a")
    assert scored.candidates(1) == [101]
    assert set(cache_of(stored(vectors)).distances(vectors[0], [101, 102, 103])) == {101, 103}
    assert cache_of(stored(vectors)).score(vectors[1], namespace="a").candidates(4) in (
        [],
        [101, 102, 103, 104],
    )


def test_a_known_seq_is_not_added_twice() -> None:
    rows = stored(random_vectors(10, DIMENSION, seed=3))
    cache = cache_of(rows[:6])
    cache.put(rows[2:], 12)
    assert (cache.rows, cache.last) == (10, 12)
    cache.put(rows, 10)
    assert (cache.rows, cache.last) == (10, 12)


def test_a_dropped_row_is_overwritten() -> None:
    rows = stored(random_vectors(10, DIMENSION, seed=3))
    cache = cache_of(rows)
    cache.keep(np.array([1, 2, 4, 5, 6, 7, 8, 10]), newest=9)
    assert sorted(candidates_in(cache, 20)) == [101, 102, 104, 105, 106, 107, 108, 110]
    block = cache._blocks[0]
    for gone in (2, 8):
        assert not block.codes[gone].any()
        assert (block.scales[gone], block.seqs[gone]) == (0, 0)
    assert (cache.gone, cache.rows) == (2, 10)
    cache.keep(np.array([1, 2, 4, 5, 6, 7, 8, 10]), newest=9)
    assert cache.gone == 2


def test_rows_of_a_later_snapshot_are_kept() -> None:
    cache = cache_of(stored(random_vectors(4, DIMENSION, seed=3)))
    cache.keep(np.array([2]), newest=3)
    assert sorted(candidates_in(cache, 5)) == [102, 104]


def test_a_chunk_stored_twice_is_found_once_by_either_vector() -> None:
    vectors = np.eye(2, DIMENSION, dtype=np.float32)
    old, new = stored(vectors)
    cache = cache_of([old, new._replace(chunk=old.chunk)])
    for query in vectors:
        assert cache.score(query, namespace="a").candidates(1)[0] == old.chunk
    assert candidates_in(cache, 5) == [old.chunk]


def test_distances_of_known_chunks_are_rounded() -> None:
    vectors = random_vectors(ROWS_PER_BLOCK + 50, 384, seed=3)
    cache, query = cache_of(stored(vectors), 384), random_vectors(1, 384, seed=4)[0]
    numbers = [0, 7, ROWS_PER_BLOCK - 1, ROWS_PER_BLOCK, ROWS_PER_BLOCK + 49]
    found = cache.distances(3 * query, [101 + number for number in numbers] + [5, 10**9])
    assert found == {101 + number: pytest.approx(1 - vectors[number] @ query, abs=0.01) for number in numbers}


def test_a_blank_row_has_no_distance() -> None:
    rows = stored(random_vectors(3, DIMENSION, seed=3))
    cache = cache_of(rows)
    cache.keep(np.array([1, 3]), 3)
    assert set(cache.distances(random_vectors(1, DIMENSION, seed=4)[0], [101, 102, 103])) == {101, 103}


def test_distances_are_looked_up_only_where_chunks_ascend() -> None:
    """An earlier chunk that was embedded late costs its block the look-up, and no other block."""
    first, second, *rest = stored(random_vectors(ROWS_PER_BLOCK + 2, 2, seed=3))
    cache = cache_of([first._replace(seq=2), second._replace(seq=1), *rest][1::-1], 2)
    cache.put(rest, rest[-1].seq)
    query = random_vectors(1, 2, seed=4)[0]
    assert set(cache.distances(query, [row.chunk for row in (first, second, *rest)])) == {
        row.chunk for row in rest[-2:]
    }


def test_an_empty_cache_finds_nothing() -> None:
    assert candidates_in(VectorCache(DIMENSION), 5) == []
    assert candidates_in(cache_of(stored(random_vectors(3, DIMENSION, seed=0))), 5, namespace="unknown") == []
    assert candidates_in(cache_of(stored(random_vectors(3, DIMENSION, seed=0))), 0) == []


def test_candidates_end_where_rounding_cannot_change_the_order() -> None:
    values = np.array([0.9, 0.5, 0.89, 0.7, 0.85], np.float32)
    scored = ScoredChunks(
        [ScoredRun(np.arange(3), values[:3], 3), ScoredRun(np.arange(3, 5), values[3:], 2)], 0.02
    )
    assert scored.candidates(1) == [0, 2]
    assert scored.candidates(3) == [0, 2, 4]
    assert scored.candidates(9) == [0, 2, 4, 3, 1]
