from __future__ import annotations

import pytest

from agentctx.doctor.catalog import select
from agentctx.doctor.check import run_checks
from agentctx.doctor.program import judge_python
from agentctx.storage.file.driver import sqlite_version
from tests.doctor.contexts import machine


@pytest.mark.parametrize(
    ("version", "status"),
    [((3, 10, 9), "warn"), ((3, 11, 0), "pass"), ((3, 13, 9), "pass"), ((3, 14, 0), "warn")],
)
def test_the_interpreter(version: tuple[int, ...], status: str) -> None:
    assert judge_python(version, "/usr/bin/python").status == status


async def test_this_program_is_fit() -> None:
    results = await run_checks(select(["program"]), machine())
    assert [result.status for result in results] == ["pass"] * 4
    assert sqlite_version() in results[1].message
    assert results[2].message.startswith("sqlite-vec v0.")
