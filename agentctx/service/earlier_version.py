"""Which edit makes an entry what an earlier version of it was. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from agentctx.times import parse_time
from agentctx.wire import EditableField

if TYPE_CHECKING:
    from agentctx.client.options import EditFields
    from agentctx.wire import EntryView

_A_CENTURY_S = 100 * 365 * 86_400
"""From here on a TTL is given in hours, because a duration has at most nine digits."""
_NEAR_MS = 2_000
"""Expiries this near are equal: one that was restored is true to the second."""
EDITABLE: tuple[EditableField, ...] = tuple(
    name for name in get_args(EditableField) if name not in {"content", "ttl"}
)
"""Fields of an entry, besides its text, that can be restored."""


def fields_to_restore(entry: EntryView, earlier: EntryView, *, now: int) -> EditFields:
    """Return the edit that restores an earlier version and clears the fields that it did not have.

    Its expiry is restored, too, unless it is before `now` (in ms).
    """
    fields: EditFields = {}
    if entry.collection != "learning":
        fields["content"] = earlier.content
    added = [name for name in EDITABLE if _has(entry, name) and not _has(earlier, name)]
    if entry.expires and not earlier.expires:
        added.append("ttl")
    if added:
        fields["clear"] = added
    remaining_s = (parse_time(earlier.expires, now=now) - now) // 1_000 if earlier.expires else 0
    is_near = (
        earlier.expires
        and entry.expires
        and abs(parse_time(earlier.expires, now=now) - parse_time(entry.expires, now=now)) < _NEAR_MS
    )
    if remaining_s > 0 and not is_near:
        fields["ttl"] = f"{remaining_s}s" if remaining_s < _A_CENTURY_S else f"{remaining_s // 3_600}h"
    given = {name: earlier.attributes[name] for name in EDITABLE if _has(earlier, name)}
    return {**fields, **given}  # type: ignore[typeddict-item] # names of EditFields


def _has(entry: EntryView, name: EditableField) -> bool:
    return entry.attributes.get(name) is not None
