"""Turns the fields of an entry into the draft that is saved. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentctx.config.schema import LimitSettings
from agentctx.errors import InvalidInput
from agentctx.plain_values import shown
from agentctx.service.stores.collection_rules import CollectionRules, FieldValues, joined, key_and_tags
from agentctx.service.stores.fields import MAX_COUNT
from agentctx.storage.chunk_texts import MAX_CUES, cues_of
from agentctx.storage.records import Draft, Entry, Revision
from agentctx.text.chunking.entry import CHUNKING_VERSION, chunk_entry
from agentctx.text.screening.rules import load_rules
from agentctx.text.screening.screener import Screener, screen
from agentctx.times import format_date


def screened(draft: Draft, screener: Screener) -> Draft:
    """Return the draft with the flags found in its text, labels and cues."""
    flags = screener("\n".join([draft.labels, draft.content, *cues_of(draft.attributes)]))
    if flags == draft.flags == ():
        return draft
    return replace(draft, flags=flags, is_held=bool(flags) and screener.quarantines)


def vouched(draft: Draft) -> Draft:
    """Return the draft with the trust of its own words; whatever resembles instructions stays external."""
    if draft.origin != "capture" or not draft.attributes.get("own_words"):
        return draft
    return draft if draft.flags or screen(draft.content, load_rules()) else replace(draft, trust="agent")


def screened_revision(
    revision: Revision, screener: Screener, found: list[tuple[str, ...]] | None = None
) -> Revision:
    """Wrap a revision so that its result is screened; each run appends its flags to `found`."""

    def revise(entry: Entry, draft: Draft | None) -> Draft:
        revised = screened(revision(entry, draft), screener)
        if found is not None:
            found.append(revised.flags or ())
        return revised

    return revise


def known_fields(rules: CollectionRules, entry: Entry, limits: LimitSettings) -> dict[str, Any]:
    """Return the fields from which an entry was made; of lists that recurrences add to, the newest items."""
    known = rules.fields_of(entry)
    for name, most in list_limits(limits) if rules.counts else ():
        if isinstance(items := known.get(name), list):
            known[name] = items[-most:]
    return known


def list_limits(limits: LimitSettings) -> Sequence[tuple[str, int]]:
    """Return the lists of an entry's fields, each with its maximum length."""
    return ("tags", limits.max_tags), ("cues", MAX_CUES)


def newest(known: Sequence[str], added: Sequence[str], most: int) -> list[str]:
    """Merge two lists, each without repetitions; over the limit, what was not added again goes first."""
    merged = list(dict.fromkeys([*known, *added]))
    old = [item for item in merged if item not in added][: max(0, len(merged) - most)]
    return [item for item in merged if item not in old][-most:]


def counted(rules: CollectionRules, entry: Entry) -> dict[str, Any]:
    """Return the counts that an imported entry claims, without implausible values."""
    known = {name: entry.attributes.get(name) for name in rules.counts}
    return {
        name: value
        for name, value in known.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    }


def without_cleared(
    rules: CollectionRules, values: Mapping[str, Any], cleared: Sequence[str], *, what: str
) -> dict[str, Any]:
    """Return the fields of an entry without the ones that an edit clears.

    Raises:
        InvalidInput: this collection has no such field, or requires it.
    """
    for name in cleared:
        if name not in rules.fields:
            raise InvalidInput(
                f"{what}: {shown(name)} is not a field of it.",
                hint=f"Its fields are {', '.join(rules.model.model_fields)}.",
            )
        if rules.model.model_fields[name].is_required():
            raise InvalidInput(f"{what}: it must have {name}.", hint=f"Give {name} another value.")
    return {name: value for name, value in values.items() if name not in cleared}


def header(rules: CollectionRules, values: FieldValues, agent: str, created: int) -> str:
    """Return the text embedded in front of each chunk: day and agent if the entry is dated, key and tags."""
    return joined([format_date(created) if rules.is_dated else "", agent, key_and_tags(values)])


def labels(values: FieldValues, agent: str) -> str:
    """Return the words searched in addition to the text: key, tags and agent."""
    return joined([key_and_tags(values), agent])


def merging(revision: Revision) -> Revision:
    """Wrap a revision that changes what nobody asked for: its other attributes make no version."""

    def revise(entry: Entry, draft: Draft | None) -> Draft:
        ttl = draft.ttl if draft is not None and draft.expires is not None else entry.ttl
        return replace(revision(entry, draft), in_place=True, ttl=ttl)

    return revise


def revised_draft(
    entry: Entry, rules: CollectionRules, values: FieldValues, *, expires: int | None, ttl: int | None = None
) -> Draft:
    """Return the draft that follows `entry` with other fields; provenance and counts stay."""
    counted = {name: value for name, value in entry.attributes.items() if name not in rules.fields}
    content = rules.content(values)
    return Draft(
        namespace=entry.namespace,
        collection=entry.collection,
        content=content,
        spans=tuple(chunk_entry(content, source=values.get("source"))),
        chunking=CHUNKING_VERSION,
        attributes={**rules.attributes(values), **counted},
        labels=labels(values, entry.agent),
        header=header(rules, values, entry.agent, entry.created),
        key=rules.key(values),
        session=entry.session,
        agent=entry.agent,
        origin=entry.origin,
        trust=entry.trust,
        principal=entry.principal,
        expires=expires,
        ttl=ttl,
    )
