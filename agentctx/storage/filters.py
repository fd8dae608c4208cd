"""What a `Filter` means in SQL, on the alias `e` of `entries`. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from agentctx.storage.quarantine import AMONG_WAITING, IS_DERIVED, IS_WAITING, NOT_QUARANTINED
from agentctx.storage.records import TRUST_ORDER
from agentctx.storage.search import Filter
from agentctx.storage.supersession import NOT_SUPERSEDED

LAST_CHARACTER: Final = "\U0010ffff"
"""Sorts after every character of a key, and alone after every id."""
NOT_WITHDRAWN: Final = """NOT EXISTS (SELECT 1 FROM file_states
    WHERE file_states.entry = e.id AND file_states.state = 'withdrawn')"""
_NOT_SUPERSEDED: Final = NOT_SUPERSEDED.format(now="{}")
IS_MARKED: Final = "EXISTS (SELECT 1 FROM file_states WHERE file_states.entry = e.id)"

Part: TypeAlias = tuple[str, Any]
"""A condition in which `{}` stands for a value."""


class FilterSyntax(NamedTuple):
    """What the engines write differently; `{}` stands for a value."""

    is_live: str
    is_one_of: str
    has_category: str
    has_tag: str


def entry_condition(wanted: Filter, syntax: FilterSyntax, add: Callable[[Any], str], *, now: int) -> str:
    """Return the complete condition: live, unexpired, not in quarantine, and matching the filter.

    `add` takes the values in the order of their places, and returns what stands there.
    """
    fixed = [syntax.is_live]
    parts: list[Part] = [
        ("e.namespace = {}", wanted.namespace),
        ("(e.expires IS NULL OR e.expires > {})", now),
    ]
    if not wanted.with_quarantined:
        fixed.append(NOT_QUARANTINED)
    elif not wanted.with_withdrawn:
        fixed.append(NOT_WITHDRAWN)
    if not wanted.with_superseded:
        parts.append((_NOT_SUPERSEDED, now))
    if wanted.only_marked:
        fixed.append(IS_MARKED)
    if wanted.with_quarantined and wanted.waiting is not None:
        fixed.append(AMONG_WAITING if wanted.waiting else f"NOT {IS_WAITING}")
    if wanted.derived_from is not None:
        parts.append((IS_DERIVED, wanted.derived_from))
    if wanted.collections is not None and len(wanted.collections) == 1:
        # With a single collection, an index has these rows in order.
        parts.append(("e.collection = {}", wanted.collections[0]))
    elif wanted.collections is not None:
        parts.append((f"e.collection {syntax.is_one_of}", list(wanted.collections)))
    if wanted.session is not None:
        parts.append(("e.session IN ({}, '')", wanted.session))
    parts += narrow(wanted, syntax)
    return " AND ".join([*fixed, *(sql.format(add(value)) for sql, value in parts)])


def narrow(wanted: Filter, syntax: FilterSyntax) -> list[Part]:
    """Return the conditions that the indexes of words and vectors cannot apply."""
    given = {
        "e.agent = {}": wanted.agent,
        "e.key = {}": wanted.key,
        "e.key >= {}": wanted.key_prefix,
        "e.key < {}": None if wanted.key_prefix is None else wanted.key_prefix + LAST_CHARACTER,
        syntax.has_category: wanted.category,
        "e.updated >= {}": wanted.since,
        "e.updated < {}": wanted.until,
    }
    parts: list[Part] = [(sql, value) for sql, value in given.items() if value is not None]
    parts += [(syntax.has_tag, tag) for tag in wanted.tags]
    if set(wanted.trust) != set(TRUST_ORDER):
        parts.append((f"e.trust {syntax.is_one_of}", list(wanted.trust)))
    return parts
