"""Histories of a memory, made by a state machine: a dictionary says at each step what must be there.

Most are of the core in this process, whose clock, provider and crashes can be steered; some are of a real
daemon, which dies by SIGKILL.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test

from agentctx.storage.records import Entry
from agentctx.storage.sqlite.entries import lookup, saving
from tests.durability.model_machine import MemoryMachine
from tests.durability.model_memories import CoreMemory, DaemonMemory, Memory
from tests.durability.suite import Outcome

STEPS = 30
MOST_FOR_A_MUTANT = 150
"""Histories until a mutant has to be noticed; the first that does ends it."""
DAEMON_SHARE = 5
"""Of so many histories, one more is that of a real daemon."""


class ModelSuite:
    name = "model"
    unit = "histories"
    ci_n = 20
    torture_n = 10_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        core, core_steps = explored(CoreMemory, n, seed)
        more = -(-n // DAEMON_SHARE)
        daemon, daemon_steps = explored(DaemonMemory, more, seed)
        figures: dict[str, float | str] = {
            "steps": core_steps,
            "steps of real daemons": daemon_steps,
        }
        return Outcome(n + more, (*core, *daemon), figures)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        """Every mutant has to be noticed; if one is not, nothing is reported."""
        found: list[str] = []
        for name, mutate in _MUTANTS.items():
            with mutate():
                violations, _ = explored(CoreMemory, MOST_FOR_A_MUTANT, seed)
            if not violations:
                return Outcome(len(found), (), {"not noticed": name})
            found.append(f"{name}: {violations[0].splitlines()[0]}")
        return Outcome(len(found), tuple(found))


def explored(make: Callable[[Path], Memory], n: int, seed: int) -> tuple[list[str], int]:
    """What n histories of a kind show, with the steps that lead there, and how many steps all had."""
    machine: type[MemoryMachine] = type("Machine", (MemoryMachine,), {"make": staticmethod(make), "steps": 0})
    hypothesis.seed(seed)(machine)
    settings = hypothesis.settings(
        max_examples=n,
        stateful_step_count=STEPS,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    violations: list[str] = []
    try:
        run_state_machine_as_test(machine, settings=settings)
    except Exception as error:  # noqa: BLE001 - whatever a history ends with is what was looked for
        violations.append(_told(error))
    return violations, machine.steps


def _told(error: BaseException) -> str:
    """The complaint, and below it the history that leads there."""
    if isinstance(error, BaseExceptionGroup):
        return _told(error.exceptions[0])
    before = error.__context__
    because = [f"in the course of {_told(before)}"] if before is not None else []
    return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ()), *because])


Mutate = Callable[[], AbstractContextManager[Any]]


def _history_without_the_live_one(*arguments: Any, **named: Any) -> tuple[list[Any], None]:
    return _history(*arguments, **named)[0][1:], None


def _by_the_clock(entry: Entry, now: int) -> int:
    return now


def _forget_the_entry_alone(conn: Any, live_seq: int, entry_id: str, **_: Any) -> int:
    """The version that was live can still be found."""
    return int(conn.execute("UPDATE entries SET live = 0 WHERE id = ?", (entry_id,)).rowcount)


_history = lookup.history
_MUTANTS: dict[str, Mutate] = {
    "a forgotten text can still be found": lambda: patch.object(saving, "_erase", _forget_the_entry_alone),
    "an edit asks for no version": lambda: patch.object(saving, "check_version", lambda *_: None),
    "a change is dated by a clock that went back": lambda: patch.object(Entry, "next_update", _by_the_clock),
    "history forgets": lambda: patch.object(lookup, "history", _history_without_the_live_one),
    "idempotency keys are not kept": lambda: patch.object(saving, "claim_key", lambda *_: True),
}

SUITE = ModelSuite()
