from __future__ import annotations

from pathlib import Path

from tests.durability.removals import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_what_is_removed_under_a_daemon_is_not_lost(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_a_daemon_that_does_not_look_is_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
