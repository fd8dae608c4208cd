"""The redactor, which applies the daemon's rules and mode."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from agentctx.config.schema import RedactionSettings
from agentctx.text.redaction.redact import RedactedText, redact
from agentctx.text.redaction.rules import SecretRules, load_rules

_MAX_CACHED_NAMES: Final = 4_096
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Redactor:
    """Redacts secrets in texts. With `refuses`, entries that contain secrets must not be saved."""

    rules: SecretRules
    refuses: bool = False
    _clean_names: set[bytes] = field(default_factory=set, init=False, repr=False, compare=False)
    """Digests rather than names, since a name may have to be forgotten."""

    def __call__(self, text: str) -> RedactedText:
        return redact(text, self.rules)

    def of_name(self, name: str) -> RedactedText:
        """Redact a recurring name, such as a session's; names without secrets are cached."""
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
        if digest in self._clean_names:
            return RedactedText(name, ())
        redacted = self(name)
        if not redacted.findings:
            if len(self._clean_names) >= _MAX_CACHED_NAMES:
                self._clean_names.clear()
            self._clean_names.add(digest)
        return redacted


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
