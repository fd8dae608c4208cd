"""The share of planted secrets that the rules redact, and the share of harmless lines they change."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from agentctx.text.redaction.redact import find
from agentctx.text.redaction.rules import SecretRules
from tests.text.redaction.secrets import PlantedSecret

SAMPLES: Final = 12
"""Secrets of each kind."""


def caught(
    rules: SecretRules, kinds: Mapping[str, Callable[[random.Random], PlantedSecret]]
) -> dict[str, float]:
    """Return, by kind, the share of secrets that are redacted completely: every letter and digit."""
    return {
        kind: sum(_is_cut_out(plant(dice), rules) for _ in range(SAMPLES)) / SAMPLES
        for kind, plant in kinds.items()
        for dice in [random.Random(f"planted {kind}")]
    }


def cut_wrongly(rules: SecretRules, lines: Iterable[str]) -> list[str]:
    """Return the lines in which something is found."""
    return [line for line in lines if find(line, rules)]


def _is_cut_out(planted: PlantedSecret, rules: SecretRules) -> bool:
    findings = find(planted.line, rules)
    start = planted.line.index(planted.secret)
    places = (at for at, each in enumerate(planted.secret, start) if each.isalnum())
    return all(any(finding.start <= at < finding.end for finding in findings) for at in places)
