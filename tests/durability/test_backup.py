from __future__ import annotations

from pathlib import Path

from tests.durability.backup import SUITE
from tests.durability.suite import expect_none, expect_violations

SEED = 1


def test_a_backup_holds_what_was_acknowledged_before_it_began(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


def test_a_build_that_backs_up_the_past_is_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)
