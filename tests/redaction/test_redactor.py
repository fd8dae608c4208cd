from __future__ import annotations

from agentctx.config.schema import RedactionSettings
from agentctx.redaction.redactor import create_redactor, no_redaction

LINE = "use ghp_" + "a1B2" * 9


def test_the_mode_decides() -> None:
    assert create_redactor(RedactionSettings())(LINE).text == "use [redacted:github-token]"
    assert not create_redactor(RedactionSettings()).refuses
    assert create_redactor(RedactionSettings(mode="reject")).refuses
    assert create_redactor(RedactionSettings(mode="off"))(LINE) == (LINE, ())
    assert no_redaction(LINE).kinds == ()


def test_disabled_rules_are_left_out() -> None:
    assert create_redactor(RedactionSettings(disabled=("github-token",)))(LINE).findings == ()
