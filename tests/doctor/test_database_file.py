from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.doctor.daemon import RECORD_NAME
from agentctx.doctor.database_file import DatabaseFacts, database_facts, judge_database, missing
from agentctx.storage.offline import DATABASE_NAME

DATABASE = Path("/data/agentctx.db")
COPY = Path("/data/agentctx.db.rescued-20261123T060000000Z")


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        (DatabaseFacts(database=DATABASE, is_there=True, was_served=True), "pass"),
        (DatabaseFacts(database=DATABASE, is_there=False), "skip"),
        (DatabaseFacts(database=DATABASE, is_there=True, rescue_copies=(COPY,)), "warn"),
        (DatabaseFacts(database=DATABASE, is_there=False, rescue_copies=(COPY,)), "fail"),
        (DatabaseFacts(database=DATABASE, is_there=False, was_served=True), "fail"),
        (DatabaseFacts(database=DATABASE, is_there=False, moved_to="/elsewhere/agentctx.db"), "fail"),
    ],
)
def test_a_database_that_should_be_there_is_missed(facts: DatabaseFacts, status: str) -> None:
    finding = judge_database(facts)
    assert finding.status == status
    assert bool(finding.hint) == finding.is_trouble


def test_a_record_that_cannot_be_read_knows_nothing(tmp_path: Path) -> None:
    (tmp_path / RECORD_NAME).write_text("{")
    assert database_facts(tmp_path / "agentctx.db") == DatabaseFacts(
        database=tmp_path / "agentctx.db", is_there=False
    )


def test_a_record_that_cannot_be_read_may_be_of_a_lost_database(tmp_path: Path) -> None:
    (tmp_path / RECORD_NAME).mkdir()
    problem = missing(database_facts(tmp_path / DATABASE_NAME))
    assert problem is not None
    assert RECORD_NAME in problem.hint
