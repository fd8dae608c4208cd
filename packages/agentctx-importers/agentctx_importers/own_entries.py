"""Entries that agentctx wrote into the format of another program, and reads again. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any, Final, get_args

from agentctx.times import format_time
from agentctx.wire import EntryView, FileState, ImportEntry, Quarantine
from agentctx_importers.records import RefusedItem

_TEXTS: Final = ("id", "namespace", "collection", "content", "created", "updated")
_OPTIONAL: Final = ("key", "session", "agent", "expires")
_MORE: Final = ("derived_from", "quarantined", "file_state")


def fields_of(entry: EntryView) -> dict[str, Any]:
    """Return the fields of an entry that an import needs, without those that are empty."""
    known = asdict(entry)
    return {name: known[name] for name in (*_TEXTS, *_OPTIONAL, "attributes", *_MORE) if known[name]}


def digest_of(content: str, attributes: Mapping[str, Any]) -> str:
    """Return a digest of what people and programs change: the text and the labels."""
    labels = [attributes.get("tags") or [], attributes.get("category"), attributes.get("source")]
    return sha256(json.dumps([content, *labels]).encode()).hexdigest()[:16]


def entry_from(where: str, fields: dict[str, Any], *, changed: int | None) -> ImportEntry | RefusedItem:
    """Return the entry of these fields, as `fields_of` returned them. The daemon checks their values.

    If `digest` is no longer theirs, the entry was updated at `changed` (milliseconds).
    """
    if any(not isinstance(fields.get(name, ""), str) for name in (*_TEXTS, *_OPTIONAL)):
        return RefusedItem(where, "A field is not a text.")
    if any(name not in fields for name in _TEXTS):
        return RefusedItem(where, "A field is missing that agentctx wrote.")
    attributes, derived_from = fields.get("attributes", {}), fields.get("derived_from") or []
    if not isinstance(attributes, dict) or not isinstance(derived_from, list):
        return RefusedItem(where, "The attributes are malformed.")
    held, state = fields.get("quarantined"), fields.get("file_state")
    if held not in {None, *get_args(Quarantine)}:
        return RefusedItem(where, "`quarantined` is not a known reason.")
    try:
        file_state = FileState(**state) if state else None
    except TypeError:
        return RefusedItem(where, "`file_state` is malformed.")
    given: dict[str, Any] = {name: fields.get(name) for name in (*_TEXTS, *_OPTIONAL)}
    if changed is not None and fields.get("digest") != digest_of(fields["content"], attributes):
        given["updated"] = max(given["updated"], format_time(changed))
    return ImportEntry(
        **given,
        attributes=attributes,
        derived_from=[str(each) for each in derived_from] or None,
        quarantined=held,
        file_state=file_state,
    )
