"""The redactor, which holds the rules and mode of a daemon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentctx.config.schema import RedactionSettings
from agentctx.redaction.redact import Redacted, redact
from agentctx.redaction.rules import SecretRules, load_rules


@dataclass(frozen=True, slots=True)
class Redactor:
    """Redacts secrets in one text. With `refuses`, entries that contain secrets must not be saved."""

    rules: SecretRules
    refuses: bool = False

    def __call__(self, text: str) -> Redacted:
        return redact(text, self.rules)


no_redaction: Final = Redactor(SecretRules(()))
"""Leaves every text unchanged."""


def create_redactor(settings: RedactionSettings) -> Redactor:
    """Create the redactor for these settings.

    Raises:
        ConfigInvalid: the rules cannot be used.
    """
    if settings.mode == "off":
        return no_redaction
    rules = load_rules(settings.rules_file, disabled=settings.disabled)
    return Redactor(rules, refuses=settings.mode == "reject")
