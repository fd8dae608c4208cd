from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentctx.doctor.space import differences, judge_canary, judge_dimension, judge_space, own_space
from agentctx.embedding_providers.base import Vectors
from agentctx.storage.records import Space, SpaceState

OURS: dict[str, str | int] = {"provider": "fake", "model": "one", "dimension": 2}
OTHER: dict[str, str | int] = {"provider": "fake", "model": "two", "dimension": 2}


def vector(*numbers: float) -> Vectors:
    return np.array(numbers, dtype=np.float32)


def space(**changes: Any) -> Space:
    fields: dict[str, Any] = {
        "id": 1,
        "fingerprint": OURS,
        "generation": 1,
        "state": SpaceState.ACTIVE,
        "enabled": True,
        "dimension": 2,
        "canary": vector(1, 0),
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


def test_vectors_of_another_model_are_warned_of_with_what_differs() -> None:
    finding = judge_space(OURS, [space(fingerprint=OTHER)])
    assert (finding.status, finding.detail) == ("warn", "model: two is now one")


def test_a_change_of_the_model_under_way_is_warned_of() -> None:
    spaces = [space(fingerprint=OTHER), space(id=2, state=SpaceState.BUILDING)]
    finding = judge_space(OURS, spaces)
    assert (finding.status, "being embedded again" in finding.message) == ("warn", True)


def test_differences_are_short_and_name_what_is_missing() -> None:
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
        (None, vector(1, 0), "skip"),
        (space(dimension=None, canary=None), vector(1, 0), "skip"),
        (space(), vector(1, 0), "pass"),
        (space(), vector(0.6, 0.8), "fail"),
        (space(), vector(1, 0, 0), "fail"),
    ],
)
def test_the_canary(own: Space | None, seen: Vectors, status: str) -> None:
    assert judge_canary(own, seen).status == status
