from __future__ import annotations

from pathlib import Path

from tests.durability.load import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_many_clients_at_once_are_all_served(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_a_build_that_fails_under_load_is_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
