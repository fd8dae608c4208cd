"""The id of a daemon."""

from __future__ import annotations

from pathlib import Path

from agentctx.storage.daemon_id import FILE_NAME, daemon_id


def test_it_stays_the_same_and_is_another_in_another_folder(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert daemon_id(one) == daemon_id(one)
    assert daemon_id(one) != daemon_id(two)


def test_an_empty_file_of_a_start_that_was_cut_short_is_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("")
    assert daemon_id(tmp_path)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
