"""The rules of spaces. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from agentctx.errors import Conflict
from agentctx.storage.records import Space, SpaceState

LIVING = (SpaceState.BUILDING, SpaceState.ACTIVE, SpaceState.KEPT)


def fingerprint_text(fingerprint: Mapping[str, str | int]) -> str:
    """Return the fingerprint as stored: the same text for the same model."""
    return json.dumps(dict(fingerprint), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def former_spaces(living: Iterable[Space]) -> list[Space]:
    """Return the spaces that are neither active nor being built: kept ones, and those not enabled."""
    return [
        space
        for space in living
        if space.state is not SpaceState.ACTIVE and (space.state is SpaceState.KEPT or not space.enabled)
    ]


def superseded(space: Space, living: Iterable[Space]) -> list[Space]:
    """Return earlier generations of a space, from before its model changed under its name."""
    return [
        each
        for each in living
        if each.fingerprint == space.fingerprint and each.generation < space.generation
    ]


def require_state(space: Space, *states: SpaceState) -> None:
    """Raise `Conflict` unless the space is in one of the states."""
    if space.state not in states:
        raise Conflict(
            f"The configured model cannot do that: its space {space.id} is {space.state}, "
            f"not {' or '.join(states)}.",
            hint="`agentctx reembed --status` shows how far it is; a restart fills a retired space again.",
        )


def require_complete(space: Space, *, pending: int, max_pending: int, has_gaps: bool) -> None:
    """Refuse to search a space that lacks more than `max_pending` chunks, or will never get some.

    Raises:
        Conflict: the space is incomplete.
    """
    if not space.enabled or pending > max_pending or has_gaps:
        raise Conflict(
            f"Space {space.id} is incomplete: {pending} chunks are still to be embedded.",
            hint="`agentctx reembed` shows how far it is.",
        )
