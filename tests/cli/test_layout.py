import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx.cli.layout import columns, file_size, one_line, printable, truncate, truncate_left, width
from tests.amount import examples


@pytest.mark.parametrize(
    ("text", "expected"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("\u200b", 0), ("", 0)]
)
def test_width_counts_columns_not_code_points(text: str, expected: int) -> None:
    assert width(text) == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("two words", 5, "two…"),
        ("any", None, "any"),
    ],
)
def test_a_line_is_truncated_by_columns(text: str, limit: int | None, expected: str) -> None:
    assert truncate(text, limit) == expected


def test_a_path_is_truncated_at_the_start() -> None:
    assert truncate_left("docs/notes.md:12", 10) == "…tes.md:12"
    assert truncate_left("docs/notes.md:12", None) == "docs/notes.md:12"
    assert truncate_left("日本語", 5) == "…本語"


@settings(max_examples=examples(150), deadline=None)
@given(st.text(), st.integers(1, 40))
def test_a_truncated_line_fits_and_has_no_control_characters(text: str, limit: int) -> None:
    line = one_line(text, limit)

    assert width(line) <= limit
    assert line.isprintable() or not any(
        ord(character) < 32 or 127 <= ord(character) < 160 for character in line
    )
    assert "\n" not in line


def test_control_and_bidi_characters_are_shown_and_line_breaks_kept() -> None:
    assert printable("a\x1b[2J\r\nb\tc\u202ed\x85") == "a\\x1b[2J\nb\tc\\u202ed\\x85"


def test_columns_are_aligned_by_visible_width() -> None:
    assert columns([("日本", "1", "x"), ("a", "22", "")], right={1}) == ["日本   1  x", "a     22"]


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_250_000, "1.2 MB"), (5 * 10**12, "5.0 TB")],
)
def test_sizes_are_human_readable(size: int, expected: str) -> None:
    assert file_size(size) == expected
