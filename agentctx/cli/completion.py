"""What the shell offers for the values of options. Runs at every press of Tab: no daemon, no heavy import."""

from __future__ import annotations

import tomllib
from contextlib import suppress

from agentctx.wire import COLLECTIONS

KNOWLEDGE_CATEGORIES = ("rule", "definition", "preference", "fact", "pattern", "correction")
LEARNING_CATEGORIES = (
    "tool_error",
    "provider_error",
    "user_correction",
    "timeout",
    "permission",
    "general",
)

CATEGORIES = tuple(dict.fromkeys((*KNOWLEDGE_CATEGORIES, *LEARNING_CATEGORIES)))


def complete_collection(incomplete: str) -> list[str]:
    """The built-in collections, and those of the config file the daemon of this user reads."""
    return _beginning([*COLLECTIONS, *_own_collections()], incomplete)


def complete_knowledge_category(incomplete: str) -> list[str]:
    return _beginning(KNOWLEDGE_CATEGORIES, incomplete)


def complete_learning_category(incomplete: str) -> list[str]:
    return _beginning(LEARNING_CATEGORIES, incomplete)


def complete_category(incomplete: str) -> list[str]:
    return _beginning((*KNOWLEDGE_CATEGORIES, *LEARNING_CATEGORIES), incomplete)


def _beginning(words: tuple[str, ...] | list[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _own_collections() -> list[str]:
    from agentctx.config.paths import config_candidates

    # An unreadable config is reported by the commands that need it, not in the middle of typing.
    with suppress(OSError, ValueError):
        file = next((path for path in config_candidates() if path.is_file()), None)
        if file is not None:
            collections = tomllib.loads(file.read_text(encoding="utf-8")).get("collections")
            return sorted(collections) if isinstance(collections, dict) else []
    return []
