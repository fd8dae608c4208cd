"""Translates a `Filter` to SQL conditions on the alias `e` of `entries`. Pure."""

from __future__ import annotations

from typing import Any, Final

from agentctx.storage import filters
from agentctx.storage.filters import FilterSyntax
from agentctx.storage.search import Filter

POSTGRESQL: Final = FilterSyntax(
    is_live="e.live",
    is_one_of="= ANY({})",
    has_category="e.attributes->>'category' = {}",
    has_tag="(e.attributes->'tags')::jsonb ? {}",
)


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
    return filters.entry_condition(wanted, POSTGRESQL, parameters.add, now=now)


def is_whole_namespace(wanted: Filter) -> bool:
    """Return whether the filter matches everything in a namespace."""
    return wanted.collections is None and wanted.session is None and not filters.narrow(wanted, POSTGRESQL)
