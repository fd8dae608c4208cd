"""Positions in a file's text move when secrets are cut out of it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.stores.redaction import moved_positions, redact_fields
from agentctx.text.redaction.redactor import Redactor, SecretFinding
from agentctx.text.redaction.rules import load_rules

REDACTOR = Redactor(load_rules())
TOKEN = "ghp_" + "a1B2" * 9
MARK = "[redacted:github-token]"


def file(places: list[list[int]], unit: str = "line") -> dict[str, object]:
    return {"digest": "0" * 64, "unit": unit, "places": places}


def test_only_texts_and_lists_of_texts_are_redacted() -> None:
    fields = {"content": f"a {TOKEN}", "tags": ["x", TOKEN], "token_count": 3, "category": None}
    redacted, kinds = redact_fields(fields, REDACTOR)
    assert redacted == {"content": f"a {MARK}", "tags": ["x", MARK], "token_count": 3, "category": None}
    assert kinds == ("github-token",)


def test_positions_after_a_cut_move_with_the_text() -> None:
    content = f"one {TOKEN}\n\fpage two"
    at = content.index("page")
    redacted, _ = redact_fields({"content": content, "file": file([[0, 1], [at, 2]], "page")}, REDACTOR)
    assert redacted["file"]["places"] == [[0, 1], [redacted["content"].index("page"), 2]]


def test_lines_removed_by_a_cut_are_counted() -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQ" * 20 + "\n-----END PRIVATE KEY-----"
    content = f"first\n{key}\nfourth line of the file is sixth"
    redacted, _ = redact_fields({"content": content, "file": file([[0, 10]])}, REDACTOR)
    text = redacted["content"]
    assert text == "first\n[redacted:private-key]\nfourth line of the file is sixth"
    assert redacted["file"]["places"] == [[0, 10], [text.index("]\n") + 1, 13]]


@given(st.lists(st.integers(0, 100), unique=True).map(sorted), st.integers(0, 90), st.integers(1, 40))
def test_positions_stay_ascending_and_within_the_text(offsets: list[int], start: int, length: int) -> None:
    content = "line\n" * 40
    finding = SecretFinding("password", start, length)
    places = [[offset, number + 1] for number, offset in enumerate(offsets)]
    moved = moved_positions(places, content, [finding], by_line=True)
    assert all(before[0] < after[0] for before, after in pairwise(moved))
    size = len(content) - length + len("[redacted:password]")
    assert all(0 <= offset <= size for offset, _ in moved)
    assert all([offset, number] in moved for offset, number in places if offset < start)
