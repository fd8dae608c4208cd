"""What ranking takes from a text."""

from __future__ import annotations

import pytest

from agentctx.storage.passage_traits import TextTraits, traits_of


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("one two\nthree", TextTraits(3, "", asks=False, times=0)),
        ("Ann Lee: was it last May?\n", TextTraits(7, "Ann Lee", asks=True, times=2)),
        (
            "Deployed on Monday, then on Friday, and again on a monday.",
            TextTraits(11, "", asks=False, times=2),
        ),
        ("https://example.org/a: a link", TextTraits(3, "", asks=False, times=0)),
        ("何ですか\uff1f", TextTraits(1, "", asks=True, times=0)),
    ],
)
def test_a_text_has_words_a_speaker_a_question_mark_and_times(text: str, traits: TextTraits) -> None:
    assert traits_of(text) == traits
