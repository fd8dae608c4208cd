"""Translates a `Filter` to SQL conditions on the alias `e` of `entries`. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from agentctx.storage import filters
from agentctx.storage.filters import FilterSyntax
from agentctx.storage.records import TRUST_ORDER
from agentctx.storage.search import Filter
from agentctx.storage.supersession import NOT_SUPERSEDED
from agentctx.storage.words import scope_token

ATTRIBUTES = "CASE WHEN json_valid(e.attributes) THEN e.attributes END"
"""Damaged attributes would fail the whole statement, so they match no condition."""

SQLITE: Final = FilterSyntax(
    is_live="e.live = 1",
    is_one_of="IN (SELECT value FROM json_each({}))",
    has_category=f"json_extract({ATTRIBUTES}, '$.category') = {{}}",
    has_tag=f"EXISTS (SELECT 1 FROM json_each({ATTRIBUTES}, '$.tags') WHERE value = {{}})",  # noqa: S608 - constant
)


@dataclass(frozen=True, slots=True)
class Condition:
    """An SQL condition and its parameters."""

    sql: str
    parameters: tuple[Any, ...]


def entry_condition(wanted: Filter, *, now: int) -> Condition:
    """Return the complete condition: live, unexpired, not in quarantine, and matching the filter."""
    parameters: list[Any] = []

    def add(value: Any) -> str:
        parameters.append(json.dumps(value) if isinstance(value, list) else value)
        return "?"

    return Condition(filters.entry_condition(wanted, SQLITE, add, now=now), tuple(parameters))


def not_superseded(now: int) -> tuple[str, tuple[Any, ...]]:
    """Return the condition that nothing supersedes or resolves the entry `e`, and its parameters."""
    return NOT_SUPERSEDED.format(now="?"), (now,)


def is_narrow(wanted: Filter) -> bool:
    """Return whether the filter has conditions that the indexes of words and vectors cannot apply."""
    return bool(filters.narrow(wanted, SQLITE))


def any_trust(wanted: Filter) -> Filter:
    """Return the filter without its condition on trust."""
    return replace(wanted, trust=TRUST_ORDER)


def excluded_trust(wanted: Filter) -> tuple[str, ...]:
    """Return the trust levels that the filter excludes."""
    return tuple(trust for trust in TRUST_ORDER if trust not in wanted.trust)


def scope_groups(wanted: Filter) -> list[list[str]]:
    """Return the part of the filter that FTS's scope column decides: one token of each group must match."""
    groups = [[scope_token("n", wanted.namespace)]]
    if wanted.collections is not None:
        groups.append([scope_token("c", collection) for collection in wanted.collections])
    if wanted.session is not None:
        groups.append([scope_token("s", wanted.session), scope_token("s", "")])
    return groups
