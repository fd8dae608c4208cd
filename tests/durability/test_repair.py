from __future__ import annotations

from pathlib import Path

from tests.durability.repair import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_no_kill_amid_a_repair_loses_what_was_found(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_a_build_that_empties_the_index_first_is_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
