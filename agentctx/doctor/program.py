"""Is the program itself fit to run: the interpreter, and what the storage needs."""

from __future__ import annotations

import sys
from collections.abc import Callable

from agentctx.doctor.check import Check, Finding, blocking, passed, warned
from agentctx.storage.opening import offline_storage

PYTHON_FROM = (3, 11)
PYTHON_BELOW = (3, 14)


def program_checks() -> list[Check]:
    return [
        Check(id="python.version", run=blocking(lambda: judge_python(sys.version_info[:3], sys.executable))),
        *(_trial(check, attempt) for check, attempt in offline_storage().trials.items()),
    ]


def judge_python(version: tuple[int, ...], executable: str) -> Finding:
    name = f"Python {_dotted(version)}"
    if PYTHON_FROM <= version[:2] < PYTHON_BELOW:
        return passed(name, detail=executable)
    return warned(
        f"{name} is not a Python version agentctx is tested with",
        detail=executable,
        hint=f"Use Python {_dotted(PYTHON_FROM)} or newer, below {_dotted(PYTHON_BELOW)}.",
    )


def _trial(check: str, attempt: Callable[[], str]) -> Check:
    return Check(id=check, run=blocking(lambda: passed(attempt())))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
