"""The cost of searching saves for secrets, how many are found, and how many findings are false."""

from __future__ import annotations

import random
from functools import partial

from agentctx.text.redaction.redactor import redact
from agentctx.text.redaction.rules import SecretRules, load_rules
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.options import Options
from benchmarks.text_scan import TextScan, measure_scan
from tests.text.redaction.corpus import (
    KEPT_BACK,
    KEPT_BACK_BENIGN,
    SHAPES,
    benign_lines,
    caught,
    cut_wrongly,
)

_SECRET = "DATABASE_URL=postgres://app:n4vR-8tQz@db:5432/prod "  # noqa: S105 - a secret to be found


LEAST_CAUGHT_PERCENT = 97.0
MOST_WRONG_PERCENT = 0.4
"""One line in 250."""


async def measure(options: Options) -> list[Figure]:
    return [*_rates(load_rules()), *_times(options)]


def _rates(rules: SecretRules) -> list[Figure]:
    """Secrets of the kinds and lines that the rules are tuned on, and a held-out set."""
    kinds = {"known kinds": SHAPES, "kinds kept back": KEPT_BACK}
    lines = {"known": benign_lines(1_000, seed=11), "kept back": KEPT_BACK_BENIGN}
    found = [
        Figure(
            name=f"secrets cut out, {len(of)} {which}",
            value=100 * sum(caught(rules, of).values()) / len(of),
            unit="%",
            bar=at_least(LEAST_CAUGHT_PERCENT, "97 %"),
        )
        for which, of in kinds.items()
    ]
    wrong = [
        Figure(
            name=f"harmless lines cut, {len(of):,} {which}",
            value=100 * len(cut_wrongly(rules, of)) / len(of),
            unit="%",
            bar=at_most(MOST_WRONG_PERCENT, "1 of 250"),
        )
        for which, of in lines.items()
    ]
    return [*found, *wrong]


def _times(options: Options) -> list[Figure]:
    return measure_scan(
        options,
        TextScan(
            verb="redact",
            scan=partial(redact, rules=load_rules()),
            sought="secrets",
            about="token = config.api_key  # secret and password are in the environment, access by bearer ",
            containing=_with_secret,
            most_ms=0.3,
        ),
    )


def _with_secret(text: str) -> str:
    at = random.Random(text).randrange(len(text))
    return f"{text[:at]} {_SECRET}{text[at:]}"
