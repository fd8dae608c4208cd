from __future__ import annotations

from pathlib import Path

from tests.durability.flips import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_no_flipped_bit_is_served(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_a_build_that_does_not_verify_is_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
