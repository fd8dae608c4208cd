from __future__ import annotations

from pathlib import Path

from tests.durability.suite import Outcome
from tests.durability.tally import Total, added, read, write


def test_runs_add_up_and_the_largest_figure_is_kept(tmp_path: Path) -> None:
    total = Total("kills")
    for seed, slowest in ((1, 2.0), (2, 1.5)):
        outcome = Outcome(50, ("lost",), {"writes": 10, "slowest s": slowest, "how": f"seed {seed}"})
        total = added(total, outcome, seed=seed, machine="m", date="2026-01-02")
    assert (total.n, total.violations, total.runs, total.last_seed) == (100, 2, 2, 2)
    assert total.figures == {"writes": 20, "slowest s": 2.0, "how": "seed 2"}
    write({"kill": total}, tmp_path / "totals.json")
    assert read(tmp_path / "totals.json") == {"kill": total}


def test_a_missing_file_has_no_totals(tmp_path: Path) -> None:
    assert read(tmp_path / "totals.json") == {}
