from __future__ import annotations

from pathlib import Path

from tests.durability.provider_faults import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_every_fault_of_a_provider_is_lived_through(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_broken_builds_are_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
