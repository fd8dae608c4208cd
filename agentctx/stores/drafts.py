"""What becomes of an entry's fields: the draft that is saved. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentctx.chunking.entry import CHUNKING_VERSION, chunk_entry
from agentctx.errors import InvalidInput
from agentctx.plain_values import shown
from agentctx.screening.screener import Screener
from agentctx.storage.cues import cues_of
from agentctx.storage.records import Draft, Entry
from agentctx.stores.kinds import FieldValues, Kind, joined, key_and_tags
from agentctx.times import format_date


def screened(draft: Draft, screener: Screener) -> Draft:
    """The draft with the flags of its text, of what is beside it, and of its cues."""
    flags = screener("\n".join([draft.labels, draft.content, *cues_of(draft.attributes)]))
    return replace(draft, flags=flags, is_held=bool(flags) and screener.quarantines)


def counted(kind: Kind, entry: Entry) -> dict[str, Any]:
    """What a foreign entry says of the attributes that are counted here, as far as it can be a count."""
    known = {name: entry.attributes.get(name) for name in kind.counts}
    return {
        name: value
        for name, value in known.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 2**53
    }


def without_cleared(
    kind: Kind, values: Mapping[str, Any], cleared: Sequence[str], *, what: str
) -> dict[str, Any]:
    """The fields of an entry without those that an edit takes away.

    Raises:
        InvalidInput: a field is none of this kind, or one that an entry must have.
    """
    for name in cleared:
        if name not in kind.fields:
            raise InvalidInput(
                f"{what}: {shown(name)} is not a field of it.",
                hint=f"Its fields are {', '.join(kind.model.model_fields)}.",
            )
        if kind.model.model_fields[name].is_required():
            raise InvalidInput(f"{what}: it must have {name}.", hint=f"Give {name} another value.")
    return {name: value for name, value in values.items() if name not in cleared}


def header(kind: Kind, values: FieldValues, agent: str, created: int) -> str:
    """What is embedded in front of each chunk: day and speaker of what happened, key and tags."""
    return joined([format_date(created) if kind.is_dated else "", agent, key_and_tags(values)])


def labels(values: FieldValues, agent: str) -> str:
    """What is searched beside the text: key, tags and speaker."""
    return joined([key_and_tags(values), agent])


def revised_draft(entry: Entry, kind: Kind, values: FieldValues, *, expires: int | None) -> Draft:
    """The draft that follows `entry` with other fields. Provenance, key and what is counted stay."""
    counted = {name: value for name, value in entry.attributes.items() if name not in kind.fields}
    content = kind.content(values)
    return Draft(
        namespace=entry.namespace,
        collection=entry.collection,
        content=content,
        spans=tuple(chunk_entry(content, source=values.get("source"))),
        chunking=CHUNKING_VERSION,
        attributes={**kind.attributes(values), **counted},
        labels=labels(values, entry.agent),
        header=header(kind, values, entry.agent, entry.created),
        key=entry.key,
        session=entry.session,
        agent=entry.agent,
        origin=entry.origin,
        trust=entry.trust,
        principal=entry.principal,
        expires=expires,
    )
