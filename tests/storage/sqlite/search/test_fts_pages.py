from __future__ import annotations

import pytest

from agentctx.storage.sqlite.search.fts_pages import drained_segments, renewed

PAGE = bytes.fromhex("0000000c") + b"\x05" + b"0pear" + b"\x01\x02" + b"\x04"
"""One term, its rowid and size, and the directory: a term starts at byte 4."""
WITHOUT_TERMS = bytes.fromhex("00040006") + b"\x01\x02"


@pytest.mark.parametrize(
    ("key", "page", "expected"),
    [
        (b"0pea", PAGE, b"0pea"),
        (b"0pear", PAGE, b"0pear"),
        (b"0orange", PAGE, b"0pear"),
        (b"0pearl", PAGE, b"0pearl"),
        (b"0orange", WITHOUT_TERMS, None),
        (b"0orange", None, None),
        (b"", None, b""),
        (b"", PAGE, b""),
    ],
    ids=["prefix", "term", "stale", "after its page", "no terms", "no page", "first", "first of a page"],
)
def test_a_stale_key_becomes_the_first_term_of_its_page(
    key: bytes, page: bytes | None, expected: bytes | None
) -> None:
    assert renewed(key, page) == expected


@pytest.mark.parametrize(
    "page",
    [b"", bytes(12), PAGE[:3], PAGE[:8], PAGE[:-1] + b"\x7f", PAGE[:-1] + b"\xff", b"\0\0\xff\xff" + PAGE],
)
def test_the_key_of_a_damaged_page_is_left_alone(page: bytes) -> None:
    assert renewed(b"0orange", page) == b"0orange"


STRUCTURE = bytes.fromhex("0000000403078409000103010604041127270e2c2c0d00000b3030000201 01811f02018112")


def test_segments_without_a_last_page_are_drained() -> None:
    assert drained_segments(STRUCTURE) == [13]


@pytest.mark.parametrize("structure", [b"", STRUCTURE[:5], STRUCTURE[:-1], STRUCTURE + b"\0", bytes(4)])
def test_a_damaged_structure_has_no_drained_segments(structure: bytes) -> None:
    assert drained_segments(structure) == []
