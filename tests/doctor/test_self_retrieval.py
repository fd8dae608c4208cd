from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agentctx.doctor.self_retrieval import judge_self_retrieval
from agentctx.service.self_retrieval import NEAREST, SAME, SelfRetrieval, is_found, retrieve_canaries
from agentctx.sqlite.driver import Connection
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.records import NearestChunk, Saved
from agentctx.storage.sqlite.engine import SqliteStorage
from tests.doctor.damage import damaged, hide_vectors, lose_words
from tests.storage.conformance import embed, save, serving_space
from tests.storage.drafts import HandClock, keyless, vector


def hits(*distances: float) -> list[NearestChunk]:
    return [NearestChunk(number, "e", distance) for number, distance in enumerate(distances, start=1)]


def test_a_chunk_is_found_at_no_distance_from_itself() -> None:
    assert is_found(2, hits(0, 0.0001, 0.4))
    assert not is_found(2, hits(0, 2 * SAME))
    assert not is_found(9, hits(0, 0.0001))
    assert not is_found(9, [])


def test_among_equals_another_may_stand_for_it() -> None:
    assert is_found(99, hits(*[0] * NEAREST))
    assert not is_found(99, hits(*[0] * (NEAREST - 1), 0.1))
    assert not is_found(99, hits(*[0] * (NEAREST - 1)))


def test_the_judgement() -> None:
    assert judge_self_retrieval(SelfRetrieval()).status == "skip"
    assert judge_self_retrieval(SelfRetrieval(words=2)).status == "pass"
    finding = judge_self_retrieval(SelfRetrieval(3, 2, ("a",), ("a", "b")))
    assert (finding.status, finding.message) == (
        "fail",
        "stored, but not found: 1 by keyword, 2 by vector",
    )
    assert finding.detail == "3 chunks searched by keyword, 2 by vector; entries a, b"


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    storage = await SqliteStorage.open(tmp_path / DATABASE_NAME, clock=HandClock(), memory_mb=0)
    await serving_space(storage)
    yield storage
    await storage.close()


@pytest.fixture
async def saved(storage: SqliteStorage) -> list[Saved]:
    found = []
    for number in range(8):
        found.append(await save(storage, keyless(f"harbour {'abcdefgh'[number] * 5}")))
        await embed(storage, found[-1], vector(1, number, number * number))
    return found


async def test_what_is_sound_finds_itself(storage: SqliteStorage, saved: list[Saved]) -> None:
    seen = await retrieve_canaries(storage)
    assert (seen.words, seen.vectors, seen.lost) == (len(saved), len(saved), 0)


async def test_a_vector_that_is_owed_is_not_asked_for(storage: SqliteStorage, saved: list[Saved]) -> None:
    await save(storage, keyless("owed zzzzz"))
    seen = await retrieve_canaries(storage)
    assert (seen.words, seen.vectors, seen.lost) == (len(saved) + 1, len(saved), 0)


def move_to_another_namespace(conn: Connection) -> None:
    conn.execute("UPDATE vec_1_chunks SET partition00 = 'elsewhere'")


def spoil_the_first(conn: Connection) -> None:
    (blob,) = conn.execute("SELECT vectors FROM vec_1_vector_chunks00").fetchone()
    turned = vector(0, 0, 0, 1).tobytes() + bytes(blob)[16:]
    conn.execute("UPDATE vec_1_vector_chunks00 SET vectors = ?", (turned,))


@pytest.mark.parametrize(
    ("how", "words", "vectors"),
    [(lose_words, 8, 0), (hide_vectors, 0, 8), (move_to_another_namespace, 0, 8), (spoil_the_first, 0, 1)],
)
@pytest.mark.usefixtures("saved")
async def test_what_does_not_find_itself_is_named(
    storage: SqliteStorage, tmp_path: Path, how: Callable[[Connection], None], words: int, vectors: int
) -> None:
    damaged(tmp_path / DATABASE_NAME, how)
    seen = await retrieve_canaries(storage)
    assert (len(seen.lost_words), len(seen.lost_vectors)) == (words, vectors)
