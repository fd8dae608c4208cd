from __future__ import annotations

from pathlib import Path

from tests.durability.retries import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_a_save_that_is_sent_again_is_saved_once(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_broken_builds_are_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
