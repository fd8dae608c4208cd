from __future__ import annotations

from pathlib import Path

from tests.durability.simulation import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_no_history_loses_a_job(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_mutants_are_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
