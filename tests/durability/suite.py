"""The protocol of a durability suite: it tries something N times and reports every broken promise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

Figures: TypeAlias = dict[str, float | str]
SHOWN = 20  # violations printed; one broken build can cause thousands


@dataclass(frozen=True)
class Outcome:
    """What one run of a suite found.

    `n` is how often it was really tried, in the suite's unit. `figures` say what happened on the way:
    an int is a count and is added up over runs, of a float the largest is kept, of a text the last.
    """

    n: int
    violations: tuple[str, ...] = ()
    figures: Mapping[str, float | str] = field(default_factory=dict)


class Suite(Protocol):
    """One way in which the program could lose data, and the search for it."""

    name: str
    unit: str  # what N counts: "kills", "crash states"
    ci_n: int  # the count in `make test-all`, and per slice of the long tier
    torture_n: int

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        """Try n times. The same seed makes the same choices. Violations are reported, not raised."""
        ...

    def control(self, *, seed: int, folder: Path) -> Outcome:
        """Run the same search on a deliberately broken build: it must report violations."""
        ...


def all_noticed(broken: Iterable[str], folder: Path, search: Callable[[str, Path], Outcome]) -> Outcome:
    """Search each broken build in a folder of its own; report a violation of each, or nothing."""
    noticed: list[str] = []
    for number, name in enumerate(broken):
        place = folder / str(number)
        place.mkdir()
        outcome = search(name, place)
        if not outcome.violations:
            return Outcome(len(noticed), (), {"not noticed": name})
        noticed.append(f"{name}: {outcome.violations[0].splitlines()[0]}")
    return Outcome(len(noticed), tuple(noticed))


def report(suite: Suite, seed: int, outcome: Outcome) -> str:
    """Format a line with N and seed, one with the figures, then the violations."""
    lines = [f"{suite.name}: {outcome.n} {suite.unit}, seed {seed}, {len(outcome.violations)} violations"]
    if outcome.figures:
        lines.append("  " + ", ".join(f"{name} {_figure(value)}" for name, value in outcome.figures.items()))
    lines += [f"  VIOLATION {violation}" for violation in outcome.violations[:SHOWN]]
    if len(outcome.violations) > SHOWN:
        lines.append(f"  … and {len(outcome.violations) - SHOWN} more")
    return "\n".join(lines)


def smoke_n(suite: Suite) -> int:
    """Return how often `make test` tries: `suite.smoke_n`, or a twentieth of the short tier."""
    return int(getattr(suite, "smoke_n", None) or max(1, suite.ci_n // 20))


def say(line: str) -> None:
    """Print without buffering: a run is long, and people watch it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _figure(value: float | str) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
