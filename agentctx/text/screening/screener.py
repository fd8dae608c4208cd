"""The screener, which flags texts for the stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentctx.config.schema import ScreeningSettings
from agentctx.text.screening.rules import ScreeningRules, load_rules
from agentctx.text.screening.visible import has_hidden_text, hidden_parts, text_variants, visible_text

HIDDEN_TEXT: Final = "hidden-text"
"""Flag of a text that is partly invisible to a person."""
ENCODED_TEXT: Final = "encoded-instructions"
"""Flag of a text whose other flags come from tag characters or Base64."""


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
    """Return the flags of a text, each once. Pure."""
    if not rules.rules:
        return ()
    flags = [HIDDEN_TEXT] if has_hidden_text(text) else []
    flags += [flag for variant in text_variants(text) for flag in rules.matching_flags(variant)]
    inside = [flag for part in hidden_parts(text) for flag in rules.matching_flags(visible_text(part))]
    return tuple(dict.fromkeys([*flags, *([ENCODED_TEXT] if inside else []), *inside]))


def create_screener(settings: ScreeningSettings) -> Screener:
    """Create the screener for these settings."""
    if settings.mode == "off":
        return no_screening
    return Screener(load_rules(), quarantines=settings.mode == "quarantine")
