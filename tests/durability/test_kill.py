from __future__ import annotations

from pathlib import Path

from tests.durability.kill import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_a_killed_daemon_has_lost_nothing(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_broken_builds_are_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
