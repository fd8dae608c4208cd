"""Checks of the Python and the SQLite that run this program."""

from __future__ import annotations

import sys
from functools import partial
from typing import Final

from agentctx.doctor.check import Finding, check, passed, warned
from agentctx.doctor.contexts import Machine
from agentctx.storage.opening import offline_storage

PYTHON_FROM: Final = (3, 11)
PYTHON_BELOW: Final = (3, 14)


@check(Machine, "python.version", lambda _: sys.version_info[:3], lambda _: sys.executable)
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


def _feature(name: str, _: Machine) -> str:
    return offline_storage().feature_checks[name]()


for _name in ("sqlite.version", "sqlite.vec", "sqlite.fts5"):
    check(Machine, _name, partial(_feature, _name))(passed)
