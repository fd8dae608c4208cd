"""What redaction costs a save, on texts as agents save them, with and without secrets."""

from __future__ import annotations

import random
from time import perf_counter

from agentctx.redaction.redact import redact
from agentctx.redaction.rules import Rules, load_rules
from benchmarks.figures import Figure, at_most
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import median, percentile

USUAL_CHARACTERS = 500
LONG_CHARACTERS = 20_000
MOST_MS = 0.3
_SECRET = "DATABASE_URL=postgres://app:n4vR-8tQz@db:5432/prod "  # noqa: S105 - what is to be found
_WORDS = "token = config.api_key  # secret and password are in the environment, access by bearer "


async def measure(options: Options) -> list[Figure]:
    """Texts of each sort, one after the other."""
    count, rules = options.size(5_000, 500), load_rules()
    source = TextSource(seed=3)
    usual = [source.text(USUAL_CHARACTERS) for _ in range(count)]
    times = {
        "a usual text": _times_ms(usual, rules),
        "a text about secrets": _times_ms([(_WORDS + text)[:USUAL_CHARACTERS] for text in usual], rules),
        "a text with a secret": _times_ms([_inside(text) for text in usual], rules),
        "a text of 20,000 characters": _times_ms(
            [source.text(LONG_CHARACTERS) for _ in range(count // 50)], rules
        ),
    }
    judged = "a usual text"
    return [
        figure
        for name, each in times.items()
        for figure in (
            Figure(
                name=f"redact {name}, p50",
                value=median(each),
                unit="ms",
                bar=at_most(MOST_MS, f"{MOST_MS} ms") if name == judged else None,
            ),
            Figure(name=f"redact {name}, p99", value=percentile(each, 99), unit="ms"),
        )
    ]


def _times_ms(texts: list[str], rules: Rules) -> list[float]:
    redact(texts[0], rules)  # compiles the regexes
    times = []
    for text in texts:
        started = perf_counter()
        redact(text, rules)
        times.append((perf_counter() - started) * 1_000)
    return times


def _inside(text: str) -> str:
    at = random.Random(text).randrange(len(text))
    return f"{text[:at]} {_SECRET}{text[at:]}"
