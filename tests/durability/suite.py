"""What a durability suite is: something that is tried N times and reports every broken promise."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

SHOWN = 20  # of the violations; one broken build can bring thousands


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
    """One way in which the program could lose something, and the search for it."""

    name: str
    unit: str  # what N counts: "kills", "crash states"
    ci_n: int  # the tier of `make test-all`, and one slice of the long one
    torture_n: int

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        """Try it n times. The same seed makes the same choices. A violation is reported, not raised."""
        ...

    def control(self, *, seed: int, folder: Path) -> Outcome:
        """The same search in a deliberately broken build: it must report violations."""
        ...


def report(suite: Suite, seed: int, outcome: Outcome) -> str:
    """One line with N and seed, one with the figures, then the violations."""
    lines = [f"{suite.name}: {outcome.n} {suite.unit}, seed {seed}, {len(outcome.violations)} violations"]
    if outcome.figures:
        lines.append("  " + ", ".join(f"{name} {_figure(value)}" for name, value in outcome.figures.items()))
    lines += [f"  VIOLATION {violation}" for violation in outcome.violations[:SHOWN]]
    if len(outcome.violations) > SHOWN:
        lines.append(f"  … and {len(outcome.violations) - SHOWN} more")
    return "\n".join(lines)


def smoke_n(suite: Suite) -> int:
    """How often `make test` tries: `suite.smoke_n`, or a twentieth of the short tier."""
    return int(getattr(suite, "smoke_n", max(1, suite.ci_n // 20)))


def say(line: str) -> None:
    """Print it now: a run takes long, and is watched."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _figure(value: float | str) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
