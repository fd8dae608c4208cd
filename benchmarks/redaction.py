"""What it costs a save to look for secrets."""

from __future__ import annotations

import random
from functools import partial

from agentctx.redaction.redact import redact
from agentctx.redaction.rules import load_rules
from benchmarks.figures import Figure
from benchmarks.options import Options
from benchmarks.text_scan import TextScan, measure_scan

_SECRET = "DATABASE_URL=postgres://app:n4vR-8tQz@db:5432/prod "  # noqa: S105 - what is to be found


async def measure(options: Options) -> list[Figure]:
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
