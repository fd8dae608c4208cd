"""A moved file keeps its mark: every name in the tables of `conftest.py` exists."""

from __future__ import annotations

from conftest import MARKS, ROOT, SEPARABLE, mark_of


def test_every_path_in_the_marks_exists() -> None:
    assert [place for place in MARKS if not (ROOT / place).exists()] == []


def test_what_is_spread_in_its_own_way_is_there() -> None:
    assert [file for file in SEPARABLE if not (ROOT / file).exists()] == []


def test_a_folder_marks_every_file_below_it() -> None:
    assert mark_of(ROOT / "tests" / "end_to_end" / "test_daemon.py") == "process"
    assert mark_of(ROOT / "tests" / "rag" / "test_select.py") == ""
