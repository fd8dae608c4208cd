"""Which flags a text gets, and what follows, as the stores are given it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentctx.config.schema import ScreeningSettings
from agentctx.screening.rules import ScreeningRules, load_rules
from agentctx.screening.visible import hidden_parts, hides_text, plain

HIDDEN_TEXT: Final = "hidden-text"
"""A person does not see all of it."""
ENCODED_TEXT: Final = "encoded-instructions"
"""A finding behind a flag is in tag characters or in Base64."""


@dataclass(frozen=True, slots=True)
class Screener:
    """Flags one text. With `quarantines`, a flagged entry is in no answer until it is released."""

    rules: ScreeningRules
    quarantines: bool = False

    def __call__(self, text: str) -> tuple[str, ...]:
        return screen(text, self.rules)


no_screening: Final = Screener(ScreeningRules())
"""Flags nothing."""


def screen(text: str, rules: ScreeningRules) -> tuple[str, ...]:
    """The flags of a text, each once. Pure."""
    if not rules.rules:
        return ()
    flags = [HIDDEN_TEXT] if hides_text(text) else []
    flags += rules.met(plain(text))
    inside = [flag for part in hidden_parts(text) for flag in rules.met(plain(part))]
    return tuple(dict.fromkeys([*flags, *([ENCODED_TEXT] if inside else []), *inside]))


def create_screener(settings: ScreeningSettings) -> Screener:
    """The screener of these settings."""
    if settings.mode == "off":
        return no_screening
    return Screener(load_rules(), quarantines=settings.mode == "quarantine")
