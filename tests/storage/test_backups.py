from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentctx.storage.backups import (
    automatic_backups,
    scheduled_name,
    superseded,
)


class TestAutomaticBackups:
    def test_are_sorted_by_the_time_in_their_names(self, tmp_path: Path) -> None:
        for made in (30, 1_795_000_000_123, 7):
            (tmp_path / scheduled_name(made)).touch()
        others = ("mine.db", "agentctx-20261122T05Z.db", "agentctx-20269999T999999999Z.db")
        for name in (*others, f"{scheduled_name(9)}.partial", f"{scheduled_name(9)}.partial-journal"):
            (tmp_path / name).touch()
        assert [each.made for each in automatic_backups(tmp_path)] == [7, 30, 1_795_000_000_123]
        assert [each.made for each in automatic_backups(tmp_path, unfinished_at=8)] == [
            7,
            8,
            30,
            1_795_000_000_123,
        ]

    def test_there_are_none_in_a_missing_folder(self, tmp_path: Path) -> None:
        assert automatic_backups(tmp_path / "gone") == []


class TestSuperseded:
    @given(st.sets(st.integers(0, 10**12), min_size=1, max_size=12), st.integers(1, 9), st.data())
    def test_the_newest_and_the_verified_backups_stay(
        self, times: set[int], keep: int, data: st.DataObject
    ) -> None:
        made = sorted(times)
        verified = scheduled_name(data.draw(st.sampled_from(made)))
        names = [scheduled_name(each) for each in made]
        gone = superseded(names, keep=keep, verified=verified)
        assert not set(gone) & set(names[-keep:])
        assert verified not in gone
        assert len(names) - len(gone) <= keep + 1

    def test_unrelated_files_stay(self) -> None:
        names = [
            scheduled_name(1),
            scheduled_name(2),
            "agentctx.db",
            "mine.db",
            "agentctx-20261122T05Z.db.partial",
        ]
        assert superseded(names, keep=1, verified=scheduled_name(2)) == [scheduled_name(1)]

    def test_partial_files_are_removed_except_the_one_in_progress(self) -> None:
        left = [f"{scheduled_name(1)}.partial", f"{scheduled_name(2)}.partial-journal"]
        names = [*left, scheduled_name(3), f"{scheduled_name(4)}.partial"]
        assert superseded(names, keep=1, verified=scheduled_name(3)) == left
