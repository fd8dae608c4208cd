from __future__ import annotations

from pathlib import Path

from tests.durability.forgetting import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_nothing_of_a_forgotten_entry_is_left_in_any_file(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_a_build_that_leaves_deleted_text_is_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
