from __future__ import annotations

from pathlib import Path

from tests.durability.reembed import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_a_killed_change_of_the_model_completes_and_mixes_nothing(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_a_build_that_mixes_models_is_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
