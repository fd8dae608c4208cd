"""Translates a `Filter` to SQL conditions on the alias `e` of `entries`. Pure."""

from __future__ import annotations

from typing import Any

from agentctx.storage.quarantine import IS_WAITING, NOT_QUARANTINED
from agentctx.storage.records import TRUST_ORDER
from agentctx.storage.search import Filter
from agentctx.storage.supersession import NOT_SUPERSEDED

LAST_CHARACTER = "\U0010ffff"
"""Sorts after every character of a key."""

NOT_WITHDRAWN = """NOT EXISTS (SELECT 1 FROM file_states
    WHERE file_states.entry = e.id AND file_states.state = 'withdrawn')"""
IS_MARKED = "EXISTS (SELECT 1 FROM file_states WHERE file_states.entry = e.id)"


class Parameters(list[Any]):
    """The parameter values of a statement, in numeric order."""

    def add(self, value: Any) -> str:
        """Add a value and return its placeholder: `$1`, `$2` …"""
        self.append(value)
        return f"${len(self)}"


def quoted(namespace: str) -> str:
    """Return a literal: a plan for a parameter would not know the namespace's size, nor use its own index."""
    return "'" + namespace.replace("'", "''") + "'"


def entry_condition(wanted: Filter, parameters: Parameters, *, now: int) -> str:
    """Return the condition: live, unexpired, not in quarantine or superseded, and matching the filter."""
    at = parameters.add(now)
    parts = [
        "e.live",
        f"e.namespace = {parameters.add(wanted.namespace)}",
        f"(e.expires IS NULL OR e.expires > {at})",
    ]
    if not wanted.with_quarantined:
        parts.append(NOT_QUARANTINED)
    elif not wanted.with_withdrawn:
        parts.append(NOT_WITHDRAWN)
    if not wanted.with_superseded:
        parts.append(NOT_SUPERSEDED.format(now=at))
    if wanted.only_marked:
        parts.append(IS_MARKED)
    if wanted.with_quarantined and wanted.waiting is not None:
        is_waiting = IS_WAITING if wanted.waiting else f"NOT {IS_WAITING}"
        parts.append(is_waiting)
    if wanted.collections is not None:
        parts.append(f"e.collection = ANY({parameters.add(list(wanted.collections))})")
    if wanted.session is not None:
        parts.append(f"e.session IN ({parameters.add(wanted.session)}, '')")
    return " AND ".join([*parts, *_narrow(wanted, parameters)])


def is_whole_namespace(wanted: Filter) -> bool:
    """Return whether the filter matches everything in a namespace."""
    return wanted.collections is None and wanted.session is None and not _narrow(wanted, Parameters())


def _narrow(wanted: Filter, parameters: Parameters) -> list[str]:
    parts = []
    if wanted.agent is not None:
        parts.append(f"e.agent = {parameters.add(wanted.agent)}")
    if wanted.key is not None:
        parts.append(f"e.key = {parameters.add(wanted.key)}")
    if wanted.key_prefix is not None:
        after = parameters.add(wanted.key_prefix + LAST_CHARACTER)
        parts.append(f"e.key >= {parameters.add(wanted.key_prefix)} AND e.key < {after}")
    if wanted.category is not None:
        parts.append(f"e.attributes->>'category' = {parameters.add(wanted.category)}")
    parts += [f"(e.attributes->'tags')::jsonb ? {parameters.add(tag)}" for tag in wanted.tags]
    if set(wanted.trust) != set(TRUST_ORDER):
        parts.append(f"e.trust = ANY({parameters.add(list(wanted.trust))})")
    if wanted.since is not None:
        parts.append(f"e.updated >= {parameters.add(wanted.since)}")
    if wanted.until is not None:
        parts.append(f"e.updated < {parameters.add(wanted.until)}")
    return parts
