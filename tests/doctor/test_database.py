from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.doctor.catalog import select
from agentctx.doctor.check import run_checks
from agentctx.doctor.database import (
    LARGE_WAL,
    judge_census,
    judge_durability,
    judge_forgotten,
    judge_integrity,
    judge_schema,
    judge_vectors,
    judge_wal,
    judge_words,
)
from agentctx.storage.file.migrate import SchemaState
from agentctx.storage.records import Census, SpaceFault, StorageStats
from tests.doctor.contexts import inner


def census(**counts: int) -> Census:
    whole = dict.fromkeys(Census.__dataclass_fields__, 0)
    return Census(**{**whole, "entries": 2, "chunks": 3, "vectors": 3, **counts})


@pytest.mark.parametrize(
    ("applied", "known", "changed", "status"),
    [
        ((1, 2), (1, 2), (), "pass"),
        ((1,), (1, 2), (), "warn"),
        ((), (1,), (), "warn"),
        ((1, 2, 3), (1, 2), (), "fail"),
        ((1,), (1,), ("0001_core.sql",), "fail"),
    ],
)
def test_the_schema(
    applied: tuple[int, ...], known: tuple[int, ...], changed: tuple[str, ...], status: str
) -> None:
    assert judge_schema(SchemaState(applied, known, changed)).status == status


def test_an_older_schema_names_the_command_that_brings_it_up_to_date() -> None:
    assert "agentctx migrate" in judge_schema(SchemaState((1,), (1, 2), ())).hint


def test_a_schema_from_before_0_1_0_names_the_command_that_opens_it() -> None:
    finding = judge_schema(SchemaState((), (1,), is_former=True))
    assert finding.status == "fail"
    assert "v0.1.0 agentctx migrate" in finding.hint
    assert judge_schema(SchemaState((1,), (1,), is_former=True)).status == "pass"


def test_damage_of_the_file_can_be_repaired_and_is_reported_in_part() -> None:
    finding = judge_integrity([f"page {n}" for n in range(20)], "Restore a backup.")
    assert (finding.status, finding.fixable) == ("fail", True)
    assert finding.detail == "page 0; page 1; page 2; and 17 more"
    assert finding.hint.endswith("Restore a backup.")
    assert judge_integrity([], "").status == "pass"


def test_damage_of_an_index_can_be_repaired() -> None:
    for finding in (judge_words("terms are missing"), judge_vectors([SpaceFault(3, "no table")])):
        assert (finding.status, finding.fixable) == ("fail", True)
        assert "--fix" in finding.hint
    assert judge_vectors([SpaceFault(3, "no table")]).detail == "space 3: no table"
    assert [judge_words(None).status, judge_vectors([]).status] == ["pass", "pass"]


BROKEN = [name for name in Census.__dataclass_fields__ if name not in {"entries", "chunks", "vectors"}]


@given(st.dictionaries(st.sampled_from(BROKEN), st.integers(0, 9)))
def test_every_violation_is_reported_with_its_count(counts: dict[str, int]) -> None:
    finding = judge_census(census(**counts))
    told = [int(part.split(" ")[0]) for part in finding.detail.split(", ") if part]
    assert sorted(told) == sorted(count for count in counts.values() if count)
    assert finding.status == ("fail" if any(counts.values()) else "pass")


def test_remains_of_forgotten_texts_that_cannot_be_removed_are_warned_of() -> None:
    assert judge_forgotten(None).status == "pass"
    finding = judge_forgotten("Rewriting takes 900 MiB of free disk space.")
    assert (finding.status, finding.message) == ("warn", "Rewriting takes 900 MiB of free disk space.")


def test_a_wal_that_is_not_emptied_is_warned_of() -> None:
    assert judge_wal(StorageStats(path="", engine="", wal_bytes=LARGE_WAL)).status == "pass"
    assert judge_wal(StorageStats(path="", engine="", wal_bytes=LARGE_WAL + 1)).status == "warn"


def test_settings_that_can_lose_acknowledged_saves_are_quoted() -> None:
    assert judge_durability(StorageStats(path="", engine="")).status == "pass"
    warnings = ("fsync is off: …", "2 standbys are …")
    finding = judge_durability(StorageStats(path="", engine="", warnings=warnings))
    assert (finding.status, finding.detail) == ("warn", "fsync is off: … 2 standbys are …")


async def test_without_a_storage_everything_in_it_is_skipped_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "agentctx.db"
    results = await run_checks(select(["database"]), inner(path=path), fix=True)
    assert {"database.opens", "database.words", "database.forgotten"} <= {result.id for result in results}
    assert {result.status for result in results} == {"skip"}
    assert {result.message for result in results} == {"not there", "nothing is saved yet"}
    assert not path.exists()
