from __future__ import annotations

import pytest

from agentctx.text.screening.visible import marked


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Deploys happen\r\n\ton Tuesdays.", "Deploys happen\n\ton Tuesdays."),
        ("ig\u200bnore", "ig<U+200B>nore"),
        ("safe\u202egnirts", "safe<U+202E>gnirts"),
        ("hi\U000e0068\U000e0069", "hi<U+E0068><U+E0069>"),
        ("\U0001d173a", "<U+1D173>a"),
        ("a\ufe01\ufe0f", "a<U+FE01><U+FE0F>"),
        ("bell\x07 \x1b[2J", "bell<U+0007> <U+001B>[2J"),
        ("❤\ufe0f 👩\u200d💻", "❤\ufe0f 👩\u200d💻"),
        ("नि\u200dच", "नि\u200dच"),
    ],
)
def test_who_judges_a_text_sees_what_it_hides(text: str, seen: str) -> None:
    assert marked(text) == seen
