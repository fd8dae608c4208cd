from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.storage.backups import (
    RECORD_NAME,
    Backup,
    BackupRecord,
    read_record,
    record_failure,
    record_success,
    scheduled_name,
    superseded,
)

BACKUP = Backup(
    path="/b/x.db",
    made=1_795_000_000_000,
    bytes=4_096,
    schema=3,
    entries=2,
    versions=3,
    vectors=2,
    digest="0" * 64,
)


class TestRecord:
    def test_there_is_no_record_at_first(self, tmp_path: Path) -> None:
        assert read_record(tmp_path) == BackupRecord()

    def test_a_failure_keeps_the_last_backup_until_the_next_success(self, tmp_path: Path) -> None:
        record_success(tmp_path, BACKUP)
        record_failure(tmp_path, "the disk is full", 7)
        assert read_record(tmp_path) == BackupRecord(last=BACKUP, failed=7, problem="the disk is full")
        later = replace(BACKUP, made=8)
        record_success(tmp_path, later)
        assert read_record(tmp_path) == BackupRecord(last=later)
        assert (tmp_path / RECORD_NAME).stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"last": {"path": 1}}', '{"last": null, "other": 1}'])
    def test_an_invalid_record_is_refused(self, tmp_path: Path, text: str) -> None:
        (tmp_path / RECORD_NAME).write_text(text)
        with pytest.raises(ValueError, match=r"record|Expecting"):
            read_record(tmp_path)


class TestSuperseded:
    @given(st.sets(st.integers(0, 10**12), max_size=12), st.integers(1, 9), st.data())
    def test_the_newest_and_the_verified_backups_stay(
        self, times: set[int], keep: int, data: st.DataObject
    ) -> None:
        made = sorted(times)
        verified = data.draw(st.sampled_from(made)) if made else None
        names = [scheduled_name(each) for each in made]
        gone = superseded(names, keep=keep, verified=None if verified is None else scheduled_name(verified))
        assert not set(gone) & set(names[-keep:])
        assert verified is None or scheduled_name(verified) not in gone
        assert len(names) - len(gone) <= keep + 1

    def test_unrelated_files_stay(self) -> None:
        names = [
            scheduled_name(1),
            scheduled_name(2),
            "agentctx.db",
            "mine.db",
            "agentctx-20261122T05Z.db.partial",
        ]
        assert superseded(names, keep=1, verified=None) == [scheduled_name(1)]

    def test_partial_files_are_removed_except_the_one_in_progress(self) -> None:
        left = [f"{scheduled_name(1)}.partial", f"{scheduled_name(2)}.partial-journal"]
        names = [*left, scheduled_name(3), f"{scheduled_name(4)}.partial"]
        assert superseded(names, keep=1, verified=scheduled_name(3)) == left
        assert superseded(names, keep=1, verified=None) == []
