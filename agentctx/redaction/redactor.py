"""The rules and the mode of a daemon, as the stores are given them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentctx.config.schema import RedactionSettings
from agentctx.redaction.redact import Redacted, redact
from agentctx.redaction.rules import SecretRules, load_rules


@dataclass(frozen=True, slots=True)
class Redactor:
    """Cuts secrets out of one text. With `refuses`, what is to be saved must have none."""

    rules: SecretRules
    refuses: bool = False

    def __call__(self, text: str) -> Redacted:
        return redact(text, self.rules)


no_redaction: Final = Redactor(SecretRules(()))
"""Keeps every text as it is."""


def create_redactor(settings: RedactionSettings) -> Redactor:
    """The redactor of these settings.

    Raises:
        ConfigInvalid: the rules cannot be used.
    """
    if settings.mode == "off":
        return no_redaction
    rules = load_rules(settings.rules_file, disabled=settings.disabled)
    return Redactor(rules, refuses=settings.mode == "reject")
