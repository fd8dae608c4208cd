"""docs/durability.json: the totals of each suite over all runs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tests.durability.suite import Outcome

FILE = Path(__file__).parents[2] / "docs" / "durability.json"


@dataclass(frozen=True)
class Total:
    """One suite's line of the file. `n` and `violations` are sums over `runs` slices."""

    unit: str
    n: int = 0
    violations: int = 0
    runs: int = 0
    last_seed: int = 0
    machine: str = ""
    date: str = ""  # of the last run: YYYY-MM-DD
    figures: Mapping[str, float | str] = field(default_factory=dict)


def added(total: Total, outcome: Outcome, *, seed: int, machine: str, date: str) -> Total:
    """Return the total including one more run."""
    return replace(
        total,
        n=total.n + outcome.n,
        violations=total.violations + len(outcome.violations),
        runs=total.runs + 1,
        last_seed=seed,
        machine=machine,
        date=date,
        figures=_merged(total.figures, outcome.figures),
    )


def read(file: Path = FILE) -> dict[str, Total]:
    """Return the totals by suite; empty without a file."""
    if not file.exists():
        return {}
    return {name: Total(**line) for name, line in json.loads(file.read_text(encoding="utf-8")).items()}


def write(totals: Mapping[str, Total], file: Path = FILE) -> None:
    """Replace the file as a whole, so that an interrupted run leaves the old one."""
    lines = {name: asdict(total) for name, total in sorted(totals.items())}
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")
    beside.replace(file)


def this_machine() -> str:
    """Describe the machine well enough to compare, without naming it."""
    python = platform.python_version()
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {python}"


def _merged(old: Mapping[str, float | str], new: Mapping[str, float | str]) -> dict[str, float | str]:
    return {**old, **{name: _both(old.get(name), value) for name, value in new.items()}}


def _both(old: float | str | None, new: float | str) -> float | str:
    if old is None or isinstance(old, str) or isinstance(new, str):
        return new
    is_count = isinstance(old, int) and isinstance(new, int)
    return old + new if is_count else max(old, new)
