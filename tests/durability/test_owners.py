from __future__ import annotations

from pathlib import Path

from tests.durability.owners import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_there_is_one_owner_and_it_can_be_reached(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_daemons_without_locks_are_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
