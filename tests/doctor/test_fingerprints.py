from __future__ import annotations

from agentctx.doctor.fingerprints import judge_fingerprints
from agentctx.storage.proofs import SpaceVectors
from agentctx.storage.records import SpaceState

ONE, OTHER = {"model": "one"}, {"model": "other"}
ACTIVE = SpaceVectors(2, SpaceState.ACTIVE, enabled=True, fingerprint=ONE, vectors=7)
FORMER = SpaceVectors(1, SpaceState.RETIRED, enabled=False, fingerprint=OTHER, vectors=0)
LEFT = SpaceVectors(1, SpaceState.RETIRED, enabled=False, fingerprint=OTHER, vectors=3)
STRANGER = SpaceVectors(9, None, enabled=False, fingerprint={}, vectors=1)


def test_every_vector_of_its_own_model() -> None:
    finding = judge_fingerprints([FORMER, ACTIVE], {2: ONE})
    assert (finding.status, finding.message) == ("pass", "7 vectors in 1 space, each from its own model")
    assert judge_fingerprints([], {}).status == "pass"


def test_vectors_that_are_left_of_a_model_can_be_removed() -> None:
    finding = judge_fingerprints([LEFT, ACTIVE, STRANGER], {2: ONE})
    assert (finding.status, finding.fixable) == ("fail", True)
    assert finding.detail == "space 1 is retired, 3 vectors of it; space 9 is not there, 1 vector of it"


def test_a_space_under_another_models_name_is_reported() -> None:
    finding = judge_fingerprints([ACTIVE], {2: OTHER})
    assert (finding.status, finding.fixable) == ("fail", False)
    assert "space 2 has the fingerprint of another model" in finding.detail


def test_a_space_that_nobody_fills_and_one_to_which_nothing_is_owed_are_reported() -> None:
    finding = judge_fingerprints([FORMER, ACTIVE], {1: ONE})
    assert finding.detail == (
        "space 2 gets jobs, but no model fills it; space 1 is filled by a model, but gets no jobs"
    )


def test_both_troubles_are_reported_and_one_can_be_repaired() -> None:
    finding = judge_fingerprints([LEFT, ACTIVE], {2: OTHER})
    assert (finding.status, finding.fixable) == ("fail", True)
    assert "another model" in finding.detail
    assert "3 vectors" in finding.detail


def test_without_a_daemon_no_model_is_compared() -> None:
    assert judge_fingerprints([ACTIVE], None).status == "pass"
    assert judge_fingerprints([LEFT, ACTIVE], None).status == "fail"
