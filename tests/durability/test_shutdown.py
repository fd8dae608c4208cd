from __future__ import annotations

from pathlib import Path

from tests.durability.shutdown import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_a_stop_is_quick_and_loses_nothing(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_a_build_that_loses_at_a_stop_is_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
