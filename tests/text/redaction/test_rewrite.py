from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.text.redaction.rewrite import View, is_undisguised, views

PIECES = st.sampled_from(
    ["ab", "\u200b", "Ａ", "\\x41", "&#65;", "%41", "\\\n  ", '" + "', "tail\nhead", "\x1b[31m", "\U000e0041"]  # noqa: RUF001
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("g\u200bh\u00adp", "ghp"),
        ("ｇｈｐ", "ghp"),  # noqa: RUF001
        ("\\x67\\u0068\\160", "ghp"),
        ("%67h&#112;", "ghp"),
        ('"g" + "hp"', '"ghp"'),
        ("g\\\n  hp", "ghp"),
        ("g\x1b[31mhp", "ghp"),
    ],
)
def test_a_text_is_also_seen_as_it_is_meant(written: str, meant: str) -> None:
    assert meant in [view.text for view in views(written)]


def test_a_text_without_disguises_is_seen_once() -> None:
    assert [view.text for view in views("a plain text, with 10 words or so")] == [
        "a plain text, with 10 words or so"
    ]


@given(st.lists(PIECES, max_size=4).map("".join))
def test_an_undisguised_text_has_no_other_view(text: str) -> None:
    if is_undisguised(text):
        assert list(views(text)) == [View(text)]


@given(st.lists(PIECES, max_size=12).map("".join))
def test_every_part_of_a_view_comes_from_a_part_of_the_text_in_order(text: str) -> None:
    for view in views(text):
        last = 0
        for at in range(len(view.text)):
            start, end = view.original(at, at + 1)
            assert last <= start < end <= len(text)
            last = start
        if not view.chain:
            assert view.original(0, len(text)) == (0, len(text))
