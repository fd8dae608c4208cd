"""Translates a `Filter` to SQL conditions on the alias `e` of `entries`. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from agentctx.storage.quarantine import IS_WAITING, NOT_QUARANTINED
from agentctx.storage.records import TRUST_ORDER
from agentctx.storage.search import Filter
from agentctx.storage.supersession import NOT_SUPERSEDED
from agentctx.storage.words import scope_token

LAST_CHARACTER = "\U0010ffff"
"""Sorts after every character of a key."""
ATTRIBUTES = "CASE WHEN json_valid(e.attributes) THEN e.attributes END"
"""Damaged attributes would fail the whole statement, so they match no condition."""

NOT_WITHDRAWN = """NOT EXISTS (SELECT 1 FROM file_states
    WHERE file_states.entry = e.id AND file_states.state = 'withdrawn')"""
IS_MARKED = "EXISTS (SELECT 1 FROM file_states WHERE file_states.entry = e.id)"


@dataclass(frozen=True, slots=True)
class Condition:
    """An SQL condition and its parameters."""

    sql: str
    parameters: tuple[Any, ...]


def entry_condition(wanted: Filter, *, now: int) -> Condition:
    """Return the complete condition: live, unexpired, not in quarantine, and matching the filter."""
    parts: list[tuple[str, tuple[Any, ...]]] = [
        ("e.live = 1", ()),
        ("e.namespace = ?", (wanted.namespace,)),
        ("(e.expires IS NULL OR e.expires > ?)", (now,)),
    ]
    if not wanted.with_quarantined:
        parts.append((NOT_QUARANTINED, ()))
    elif not wanted.with_withdrawn:
        parts.append((NOT_WITHDRAWN, ()))
    if not wanted.with_superseded:
        parts.append(not_superseded(now))
    if wanted.only_marked:
        parts.append((IS_MARKED, ()))
    if wanted.with_quarantined and wanted.waiting is not None:
        is_waiting = IS_WAITING if wanted.waiting else f"NOT {IS_WAITING}"
        parts.append((is_waiting, ()))
    if wanted.collections is not None and len(wanted.collections) == 1:
        # With a single collection, the index has these rows in order.
        parts.append(("e.collection = ?", tuple(wanted.collections)))
    elif wanted.collections is not None:
        parts.append(("e.collection IN (SELECT value FROM json_each(?))", (json.dumps(wanted.collections),)))
    if wanted.session is not None:
        parts.append(("e.session IN (?, '')", (wanted.session,)))
    parts += _narrow(wanted)
    return _all_of(parts)


def not_superseded(now: int) -> tuple[str, tuple[Any, ...]]:
    """Return the condition that nothing supersedes or resolves the entry `e`, and its parameters."""
    return NOT_SUPERSEDED.format(now="?"), (now,)


def is_narrow(wanted: Filter) -> bool:
    """Return whether the filter has conditions that the indexes of words and vectors cannot apply."""
    return bool(_narrow(wanted))


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


def _narrow(wanted: Filter) -> list[tuple[str, tuple[Any, ...]]]:
    parts: list[tuple[str, tuple[Any, ...]]] = []
    if wanted.agent is not None:
        parts.append(("e.agent = ?", (wanted.agent,)))
    if wanted.key is not None:
        parts.append(("e.key = ?", (wanted.key,)))
    if wanted.key_prefix is not None:
        parts.append(("e.key >= ? AND e.key < ?", (wanted.key_prefix, wanted.key_prefix + LAST_CHARACTER)))
    if wanted.category is not None:
        parts.append((f"json_extract({ATTRIBUTES}, '$.category') = ?", (wanted.category,)))
    parts += [
        (f"EXISTS (SELECT 1 FROM json_each({ATTRIBUTES}, '$.tags') WHERE value = ?)", (tag,))  # noqa: S608 - constant
        for tag in wanted.tags
    ]
    if set(wanted.trust) != set(TRUST_ORDER):
        parts.append(("e.trust IN (SELECT value FROM json_each(?))", (json.dumps(wanted.trust),)))
    if wanted.since is not None:
        parts.append(("e.updated >= ?", (wanted.since,)))
    if wanted.until is not None:
        parts.append(("e.updated < ?", (wanted.until,)))
    return parts


def _all_of(parts: list[tuple[str, tuple[Any, ...]]]) -> Condition:
    return Condition(
        " AND ".join(sql for sql, _ in parts),
        tuple(parameter for _, parameters in parts for parameter in parameters),
    )
