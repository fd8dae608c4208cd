"""Ids of what hooks save."""

from __future__ import annotations

import pytest

from agentctx.storage.ids import bucket_of, id_of_capture, is_id

KEY = f"hook-01a226a1b5ab-{'a' * 64}"


def test_a_capture_has_the_time_of_its_turn_and_its_namespace_in_the_same_id() -> None:
    entry_id = id_of_capture(KEY, "n")
    assert entry_id is not None
    assert is_id(entry_id)
    assert entry_id.startswith("01a226a1-b5ab-7")
    assert int(entry_id[-3:], 16) & 0x3FF == bucket_of("n")
    assert entry_id == id_of_capture(f"{KEY}/0", "n")
    assert entry_id != id_of_capture(KEY, "m")
    assert entry_id != id_of_capture(KEY.replace("a" * 64, "b" * 64), "n")


@pytest.mark.parametrize("key", ["", f"hook-{'a' * 64}", f"{KEY}/1", f"x{KEY}", KEY.upper()])
def test_other_keys_give_no_id(key: str) -> None:
    assert id_of_capture(key, "n") is None
