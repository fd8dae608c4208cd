"""Checks of the Python and the SQLite that run this program."""

from __future__ import annotations

import sys
from typing import Final

from agentctx.doctor.check import Finding, check, passed, warned
from agentctx.doctor.contexts import Machine
from agentctx.storage.opening import offline_storage

PYTHON_FROM: Final = (3, 11)
PYTHON_BELOW: Final = (3, 14)


@check(Machine, "python.version")
def check_python(_: Machine) -> Finding:
    return judge_python(sys.version_info[:3], sys.executable)


def judge_python(version: tuple[int, ...], executable: str) -> Finding:
    name = f"Python {_dotted(version)}"
    if PYTHON_FROM <= version[:2] < PYTHON_BELOW:
        return passed(name, detail=executable)
    return warned(
        f"{name} is not a Python version agentctx is tested with",
        detail=executable,
        hint=f"Use Python {_dotted(PYTHON_FROM)} or newer, below {_dotted(PYTHON_BELOW)}.",
    )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@check(Machine, "sqlite.version")
def check_sqlite(_: Machine) -> Finding:
    return passed(offline_storage().feature_checks["sqlite.version"]())


@check(Machine, "sqlite.vec")
def check_sqlite_vec(_: Machine) -> Finding:
    return passed(offline_storage().feature_checks["sqlite.vec"]())


@check(Machine, "sqlite.fts5")
def check_fts5(_: Machine) -> Finding:
    return passed(offline_storage().feature_checks["sqlite.fts5"]())
