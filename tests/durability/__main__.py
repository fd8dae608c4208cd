"""Run the long tier: `python -m tests.durability`. It can be stopped at any time and resumes later."""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.durability import page, registry, tally
from tests.durability.suite import Outcome, Suite, report, say


@dataclass(frozen=True)
class Plan:
    """The parsed command line."""

    suites: tuple[str, ...]
    minutes: float | None
    seed: int | None
    n: int | None
    control: bool
    page: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites in turn. Return 1 if a promise was broken or, with --control, if none was."""
    plan = _parsed(arguments)
    if plan.page:
        page.write(tally.read())
        return 0
    until = None if plan.minutes is None else time.monotonic() + plan.minutes * 60
    failed = False
    for number, name in enumerate(plan.suites):
        share = _share(until, len(plan.suites) - number)
        failed |= _tortured(name, plan, share)
    return int(failed)


def _parsed(arguments: Sequence[str] | None) -> Plan:
    parser = argparse.ArgumentParser(prog="python -m tests.durability", description=__doc__)
    parser.add_argument("--suite", action="append", choices=list(registry.MODULES), help="only this one")
    parser.add_argument("--minutes", type=float, help="stop after about so long, shared among the suites")
    parser.add_argument("--seed", type=int, help="of the first slice; default: the one after the last")
    parser.add_argument("--n", type=int, help="one slice of this size, not added up: replays what was found")
    parser.add_argument("--control", action="store_true", help="the deliberately broken build instead")
    parser.add_argument("--page", action="store_true", help="only rewrite the table of docs/durability.md")
    given = parser.parse_args(arguments)
    return Plan(
        tuple(given.suite or registry.available()),
        given.minutes,
        given.seed,
        given.n,
        given.control,
        given.page,
    )


def _share(until: float | None, suites_left: int) -> float | None:
    """Return the deadline of this suite; the remaining suites get an equal share of the time."""
    if until is None:
        return None
    now = time.monotonic()
    return now + max(until - now, 0) / suites_left


def _tortured(name: str, plan: Plan, until: float | None) -> bool:
    """Run one suite as far as the plan allows. Return whether something is wrong."""
    suite = registry.suite_named(name)
    if plan.control or plan.n is not None:
        outcome = _slice(suite, plan.n or suite.ci_n, plan.seed or 1, control=plan.control)
        return bool(outcome.violations) != plan.control
    failed = False
    seed = plan.seed if plan.seed is not None else _next_seed(name)
    while (left := suite.torture_n - _done(name)) > 0:
        size = min(left, suite.ci_n)
        outcome = _slice(suite, size, seed, control=False)
        _add(suite, seed, outcome)
        if outcome.violations:
            failed = True
            say(f"  replay: python -m tests.durability --suite {name} --seed {seed} --n {size}")
        seed += 1
        if until is not None and time.monotonic() >= until:
            break
    say(f"{name}: {_done(name)} of {suite.torture_n} {suite.unit} in all")
    return failed


def _slice(suite: Suite, n: int, seed: int, *, control: bool) -> Outcome:
    """Run once in a new folder, which is kept if there is a violation."""
    folder = Path(tempfile.mkdtemp(prefix=f"durability-{suite.name}-"))
    outcome = suite.control(seed=seed, folder=folder) if control else suite.run(n, seed=seed, folder=folder)
    say(report(suite, seed, outcome))
    if outcome.violations and not control:
        say(f"  left in {folder}")
    else:
        shutil.rmtree(folder)
    return outcome


def _done(name: str) -> int:
    total = tally.read().get(name)
    return total.n if total else 0


def _next_seed(name: str) -> int:
    total = tally.read().get(name)
    return total.last_seed + 1 if total else 1


def _add(suite: Suite, seed: int, outcome: Outcome) -> None:
    totals = tally.read()
    total = totals.get(suite.name, tally.Total(suite.unit))
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    totals[suite.name] = tally.added(total, outcome, seed=seed, machine=tally.this_machine(), date=today)
    tally.write(totals)
    page.write(totals)


if __name__ == "__main__":
    sys.exit(main())
