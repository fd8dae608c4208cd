from __future__ import annotations

from pathlib import Path

from tests.durability.pages import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_what_can_be_read_of_damaged_pages_is_kept_and_the_rest_named(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_a_build_that_repairs_too_little_is_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
