from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentctx.config.embedding import EmbeddingSettings
from agentctx.doctor.check import run_checks
from agentctx.doctor.provider import make_embedding
from agentctx.doctor.space import (
    MIN_TEXTS,
    differences,
    is_english,
    judge_canary,
    judge_dimension,
    judge_fingerprints,
    judge_language,
    judge_self_retrieval,
    judge_space,
    own_space,
)
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.service.self_check import NEAREST, SAME, SelfRetrieval, is_found, retrieve_canaries
from agentctx.storage.file.driver import Connection
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.proofs import SpaceVectors
from agentctx.storage.records import SaveOutcome, Space, SpaceState
from agentctx.storage.search import NearestChunk
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.vectors import Vectors
from agentctx_testing.drafts import ManualClock, embed, keyless, save, serving_space, vector
from tests import running_core
from tests.doctor.contexts import inner
from tests.doctor.damage import damaged, hide_vectors, lose_words

OURS: dict[str, str | int] = {"provider": "fake", "model": "one", "dimension": 2}
OTHER: dict[str, str | int] = {"provider": "fake", "model": "two", "dimension": 2}


def vector_of_space(*numbers: float) -> Vectors:
    return np.array(numbers, dtype=np.float32)


def space(**changes: Any) -> Space:
    fields: dict[str, Any] = {
        "id": 1,
        "fingerprint": OURS,
        "generation": 1,
        "state": SpaceState.ACTIVE,
        "enabled": True,
        "dimension": 2,
        "canary": vector_of_space(1, 0),
    }
    return Space(**{**fields, **changes})


def test_our_space_is_the_newest_living_one_of_the_fingerprint() -> None:
    spaces = [
        space(id=1),
        space(id=2, generation=2, state=SpaceState.BUILDING),
        space(id=3, generation=3, state=SpaceState.RETIRED, enabled=False),
        space(id=4, fingerprint=OTHER, generation=9),
    ]
    found = own_space(OURS, spaces)
    assert found is not None
    assert found.id == 2
    assert own_space(OURS, []) is None


def test_vectors_of_the_configured_model_pass() -> None:
    assert judge_space(OURS, [space()]).status == "pass"


def test_nothing_embedded_yet_is_skipped() -> None:
    assert judge_space(OURS, [space(state=SpaceState.RETIRED, enabled=False)]).status == "skip"


def test_vectors_of_another_model_are_a_warning_with_the_difference() -> None:
    finding = judge_space(OURS, [space(fingerprint=OTHER)])
    assert (finding.status, finding.detail) == ("warn", "model: two is now one")


def test_a_change_of_the_model_under_way_is_warned_of() -> None:
    spaces = [space(fingerprint=OTHER), space(id=2, state=SpaceState.BUILDING)]
    finding = judge_space(OURS, spaces)
    assert (finding.status, "being embedded again" in finding.message) == ("warn", True)


def test_differences_are_short_and_name_missing_parts() -> None:
    stored: dict[str, str | int] = {"weights": "a" * 64, "pooling": "mean"}
    configured: dict[str, str | int] = {"weights": "b" * 64, "window": 256}
    assert differences(stored, configured) == (
        "weights: aaaaaaaaaaaa… is now bbbbbbbbbbbb…, window: nothing is now 256, "
        "pooling: mean is now nothing"
    )


@pytest.mark.parametrize(
    ("configured", "answered", "own", "status"),
    [
        (0, 2, None, "pass"),
        (2, 2, space(), "pass"),
        (0, 2, space(dimension=None, canary=None), "pass"),
        (3, 2, None, "fail"),
        (0, 3, space(), "fail"),
    ],
)
def test_the_dimension(configured: int, answered: int, own: Space | None, status: str) -> None:
    assert judge_dimension(configured, answered, own).status == status


@pytest.mark.parametrize(
    ("own", "seen", "status"),
    [
        (None, vector_of_space(1, 0), "skip"),
        (space(dimension=None, canary=None), vector_of_space(1, 0), "skip"),
        (space(), vector_of_space(1, 0), "pass"),
        (space(), vector_of_space(0.6, 0.8), "fail"),
        (space(), vector_of_space(1, 0, 0), "fail"),
    ],
)
def test_the_canary(own: Space | None, seen: Vectors, status: str) -> None:
    assert judge_canary(own, seen).status == status


ONE, OTHER_OF_FINGERPRINTS = {"model": "one"}, {"model": "other"}
ACTIVE = SpaceVectors(2, SpaceState.ACTIVE, enabled=True, fingerprint=ONE, vectors=7)
FORMER = SpaceVectors(1, SpaceState.RETIRED, enabled=False, fingerprint=OTHER_OF_FINGERPRINTS, vectors=0)
LEFT = SpaceVectors(1, SpaceState.RETIRED, enabled=False, fingerprint=OTHER_OF_FINGERPRINTS, vectors=3)
STRANGER = SpaceVectors(9, None, enabled=False, fingerprint={}, vectors=1)


def test_every_vector_of_its_own_model() -> None:
    finding = judge_fingerprints([FORMER, ACTIVE], {2: ONE})
    assert (finding.status, finding.message) == ("pass", "7 vectors in 1 space, each from its own model")
    assert judge_fingerprints([], {}).status == "pass"


def test_vectors_that_are_left_of_a_model_can_be_removed() -> None:
    finding = judge_fingerprints([LEFT, ACTIVE, STRANGER], {2: ONE})
    assert (finding.status, finding.fixable) == ("fail", True)
    assert finding.detail == "space 1 is retired, but has 3 vectors; space 9 does not exist, but has 1 vector"


def test_a_space_under_another_models_name_is_reported() -> None:
    finding = judge_fingerprints([ACTIVE], {2: OTHER_OF_FINGERPRINTS})
    assert (finding.status, finding.fixable) == ("fail", False)
    assert "space 2 has the fingerprint of another model" in finding.detail


def test_a_space_without_a_model_and_a_complete_space_are_reported() -> None:
    finding = judge_fingerprints([FORMER, ACTIVE], {1: ONE})
    assert finding.detail == (
        "space 2 gets jobs, but no model fills it; space 1 is filled by a model, but gets no jobs"
    )


def test_both_troubles_are_reported_and_one_can_be_repaired() -> None:
    finding = judge_fingerprints([LEFT, ACTIVE], {2: OTHER_OF_FINGERPRINTS})
    assert (finding.status, finding.fixable) == ("fail", True)
    assert "another model" in finding.detail
    assert "3 vectors" in finding.detail


def test_without_a_daemon_no_model_is_compared() -> None:
    assert judge_fingerprints([ACTIVE], None).status == "pass"
    assert judge_fingerprints([LEFT, ACTIVE], None).status == "fail"


def hits(*distances: float) -> list[NearestChunk]:
    return [NearestChunk(number, "e", distance) for number, distance in enumerate(distances, start=1)]


def test_a_chunk_is_found_at_no_distance_from_itself() -> None:
    assert is_found(2, hits(0, 0.0001, 0.4))
    assert not is_found(2, hits(0, 2 * SAME))
    assert not is_found(9, hits(0, 0.0001))
    assert not is_found(9, [])


def test_an_equal_entry_may_be_found_instead() -> None:
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
    storage = await SqliteStorage.open(tmp_path / DATABASE_NAME, clock=ManualClock(), memory_mb=0)
    await serving_space(storage)
    yield storage
    await storage.close()


@pytest.fixture
async def saved(storage: SqliteStorage) -> list[SaveOutcome]:
    found = []
    for number in range(8):
        found.append(await save(storage, keyless(f"harbour {'abcdefgh'[number] * 5}")))
        await embed(storage, found[-1], vector(1, number, number * number))
    return found


async def test_intact_entries_find_themselves(storage: SqliteStorage, saved: list[SaveOutcome]) -> None:
    seen = await retrieve_canaries(storage)
    assert (seen.words, seen.vectors, seen.lost) == (len(saved), len(saved), 0)


async def test_a_pending_vector_is_not_searched(storage: SqliteStorage, saved: list[SaveOutcome]) -> None:
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
async def test_an_entry_that_does_not_find_itself_is_named(
    storage: SqliteStorage, tmp_path: Path, how: Callable[[Connection], None], words: int, vectors: int
) -> None:
    damaged(tmp_path / DATABASE_NAME, how)
    seen = await retrieve_canaries(storage)
    assert (len(seen.lost_words), len(seen.lost_vectors)) == (words, vectors)


ENGLISH = "Deploys are only on Tuesdays, and the release is announced before noon."
GERMAN = "Das Team spricht dienstags über die Änderungen und schreibt sie in den Kalender."


@pytest.mark.parametrize(
    ("text", "english"),
    [
        (ENGLISH, True),
        ("We never restart the replica during the export.", True),
        (GERMAN, False),
        ("Los despliegues se hacen los martes antes del mediodía.", False),
        ("Les déploiements se font le mardi, avant midi, avec une annonce.", False),
        ("I deploy si fanno il martedì, e il team che li fa è di turno.", False),
        ("De uitrol is op dinsdag en wordt van tevoren aangekondigd met een bericht.", False),
        ("Wdrożenia są we wtorki, nie w piątki, i zespół jest na dyżurze.", False),
        ("デプロイは火曜日の正午までに行います。", False),
        ("Развёртывание проводится по вторникам.", False),
        ("部署只在星期二进行。", False),
        ("النشر يوم الثلاثاء فقط.", False),
        ("def drain(queue): return queue.pop()", None),
        ("2026-11-23 10.0.0.1 502", None),
        ("", None),
    ],
)
def test_a_language_is_known_by_script_and_common_words(text: str, english: bool | None) -> None:
    assert is_english(text) is english


def test_a_memory_that_is_mostly_not_english_is_warned_of() -> None:
    mixed = [GERMAN] * MIN_TEXTS + [ENGLISH] * (MIN_TEXTS - 1)
    assert judge_language(mixed).status == "warn"
    assert judge_language([*mixed, ENGLISH]).status == "pass"
    assert judge_language([GERMAN] * (MIN_TEXTS - 1)).status == "skip"
    assert "embedding.next" in judge_language(mixed).hint
    assert "extra multilingual" in judge_language(mixed).hint


async def test_only_the_memory_of_the_embedded_model_is_judged(tmp_path: Path) -> None:
    async with running_core.running_core(tmp_path, FakeProvider(dimension=8)) as core:
        for number in range(MIN_TEXTS):
            await running_core.save(core, key=f"k{number}", content=f"{GERMAN} Nummer {number}")
        for provider, status in (("embedded", "warn"), ("fake", "skip"), ("none", "skip")):
            embedding = make_embedding(EmbeddingSettings(provider=provider), offline=False)
            (result,) = await run_checks(
                ["embedding.language"], inner(opened=core.storage, embedding=embedding)
            )
            assert result.status == status
