from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.config.schema import RedactionSettings
from agentctx.text.redaction.redactor import create_redactor, no_redaction

LINE = "use ghp_" + "a1B2" * 9
NAMES = ["default", "bench", "a session", "ghp_", "\udc80"]


def test_the_mode_decides() -> None:
    assert create_redactor(RedactionSettings())(LINE).text == "use [redacted:github-token]"
    assert not create_redactor(RedactionSettings()).refuses
    assert create_redactor(RedactionSettings(mode="reject")).refuses
    assert create_redactor(RedactionSettings(mode="off"))(LINE) == (LINE, ())
    assert no_redaction(LINE).kinds == ()


def test_disabled_rules_are_left_out() -> None:
    assert create_redactor(RedactionSettings(disabled=("github-token",)))(LINE).findings == ()


@given(st.lists(st.sampled_from([*NAMES, LINE, LINE + "x"]), max_size=12))
def test_a_name_is_redacted_as_any_text_however_often_it_comes(names: list[str]) -> None:
    redactor = create_redactor(RedactionSettings())
    assert [redactor.of_name(name) for name in names] == [redactor(name) for name in names]


def test_clean_names_are_remembered_without_their_text_and_up_to_a_number() -> None:
    redactor = create_redactor(RedactionSettings(mode="off"))
    for number in range(5_000):
        redactor.of_name(f"session {number}")
    assert 0 < len(redactor._clean_names) < 5_000
    assert not any(b"session" in digest for digest in redactor._clean_names)
