from __future__ import annotations

from pathlib import Path

from tests.durability.provider_outage import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_an_outage_of_a_day_loses_and_buries_nothing(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_broken_builds_are_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
