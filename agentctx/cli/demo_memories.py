"""The memories and questions of the demo: a small team that ships parcels."""

from __future__ import annotations

from dataclasses import dataclass

from agentctx.client.options import SaveFields


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question and the name of the memory that answers it best."""

    text: str
    answer: str


@dataclass(frozen=True, slots=True)
class DemoMemory:
    """A memory to save. `content` is None for learnings, whose text is generated from `fields`."""

    collection: str
    content: str | None
    fields: SaveFields


MEMORIES: dict[str, DemoMemory] = {
    "deploy-window": DemoMemory(
        "knowledge",
        "Nothing goes to production after three o'clock on a Friday: whoever is on call over the "
        "weekend would have nobody to ask.",
        {"key": "deploy-window", "category": "rule", "tags": ["operations"]},
    ),
    "backup-policy": DemoMemory(
        "knowledge",
        "本番データベースのバックアップは毎日午前三時に東京リージョンへ複製し、三十日間保管する。",
        {"key": "backup-policy", "category": "fact", "origin": "user"},
    ),
    "hanging checkout": DemoMemory(
        "observation",
        "While the coupon service restarts, every checkout worker hangs: each one waits for a "
        "connection that never comes back.",
        {"session": "checkout-hangs", "agent": "debugger"},
    ),
    "wrong suspect": DemoMemory(
        "reflection",
        "We blamed the network for two days. The counters of the connection pool would have shown "
        "the cause within ten minutes.",
        {"session": "checkout-hangs", "agent": "debugger"},
    ),
    "locked migration": DemoMemory(
        "learning",
        None,
        {
            "trigger": "alembic upgrade head fails in the pipeline",
            "error_pattern": "psycopg.errors.LockNotAvailable: canceling statement due to lock timeout",
            "diagnosis": "A nightly report holds the table while the migration wants to change it.",
            "fix": "Set lock_timeout to five seconds and run it again when the report is through.",
        },
    ),
    "full volume": DemoMemory(
        "learning",
        None,
        {
            "trigger": "the label printer service dies at night",
            "error_pattern": "OSError: [Errno 28] No space left on device",
            "diagnosis": "Rendered PDFs stayed in the temporary folder until the volume was full.",
            "fix": "Delete each file once the printer has confirmed it; alert at eighty percent.",
        },
    ),
}
"""The memories by the name that the demo shows."""

BY_WORD = (
    DemoQuestion("lock_timeout", "locked migration"),
    DemoQuestion("東京", "backup-policy"),
)
"""Questions whose words occur in the answers, including two Japanese characters."""

IN_OTHER_WORDS = (
    DemoQuestion("Can I deploy on Friday evening?", "deploy-window"),
    DemoQuestion("Why is checkout stuck?", "hanging checkout"),
    DemoQuestion("Why does the printer crash at night?", "full volume"),
)

FOR_AN_LLM = DemoQuestion("Is it fine to deploy to production on Friday at five?", "deploy-window")
