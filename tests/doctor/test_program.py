from __future__ import annotations

import pytest

from agentctx.doctor.program import judge_python, judge_sqlite, program_checks
from agentctx.doctor.runner import run_checks
from agentctx.sqlite.driver import sqlite_version


@pytest.mark.parametrize(
    ("version", "status"),
    [((3, 10, 9), "warn"), ((3, 11, 0), "pass"), ((3, 13, 9), "pass"), ((3, 14, 0), "warn")],
)
def test_the_interpreter(version: tuple[int, ...], status: str) -> None:
    assert judge_python(version, "/usr/bin/python").status == status


@pytest.mark.parametrize(
    ("version", "status"),
    [("3.40.1", "fail"), ("3.51.2", "fail"), ("3.51.3", "pass"), ("3.50.7", "pass"), ("3.53.4", "pass")],
)
def test_a_sqlite_that_can_corrupt_is_a_failure(version: str, status: str) -> None:
    finding = judge_sqlite(version, "sqlite3")
    assert (finding.status, version in finding.message) == (status, True)


async def test_this_program_is_fit() -> None:
    results = await run_checks(program_checks())
    assert [result.status for result in results] == ["pass"] * 4
    assert sqlite_version() in results[1].message
    assert results[2].message.startswith("sqlite-vec v0.")
