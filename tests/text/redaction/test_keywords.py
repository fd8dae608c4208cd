from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.text.redaction.keywords import Keywords

WORDS = ["pass", "passw", "sshpass", "-pass", "ghp_", "_key", "key", "密码", "t1.", "a3-", "pa", "ssk"]


@given(st.lists(st.sampled_from([*WORDS, "x", " ", "p", "s", "_", "-", "."]), max_size=12).map("".join))
def test_exactly_the_keywords_in_a_text_are_named(text: str) -> None:
    assert sorted(Keywords(WORDS).within(text)) == sorted(word for word in WORDS if word in text)
