"""Decides how a draft changes an existing entry: a new version, new attributes, or nothing. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from agentctx.errors import Forgotten, IdempotencyKeyReused, InvalidInput, NotFound, VersionConflict
from agentctx.names import MAX_NAME_CHARS
from agentctx.storage.audit import AuditedChange
from agentctx.storage.ids import is_id
from agentctx.storage.records import (
    FORGOTTEN_DIGEST,
    TRUST_ORDER,
    Change,
    Draft,
    Entry,
    IdempotencyKey,
    Revision,
    SaveOutcome,
)
from agentctx.text.chunking.entry import CHUNKING_VERSION, chunk_entry
from agentctx.wire import Trust

MAX_VERSIONS: Final = 100
"""How many versions of an entry are kept unless set otherwise: the first one, the one that brought the live
text, and the newest."""
_ENCODE: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveCommand:
    """How and when to save a draft, and on what condition. The draft itself changes on the way."""

    now: int
    embed: bool = False
    """Whether to create jobs for every enabled space."""
    if_version: int | None = None
    """The version that must be live; 0 if the entry must not exist."""
    revision: Revision | None = None
    """Builds the draft if there is such an entry."""
    idempotency: IdempotencyKey | None = None
    audited: AuditedChange | None = None
    """How the audit trail records it; None if it does not."""
    max_versions: int = MAX_VERSIONS
    daemon: str = ""
    """The daemon for which the jobs are reserved, where several share the memory."""


class Times(NamedTuple):
    """The times of an entry's creation and change, and of the write itself."""

    created: int
    updated: int
    now: int


def least_trust(*levels: Trust) -> Trust:
    """Return the lowest trust, which an entry made from several gets; nothing raises trust."""
    return min(levels, key=TRUST_ORDER.index)


def change_by_save(entry: Entry, draft: Draft, trust: Trust) -> Change:
    """Return the effect of a save on a live entry whose trust will be `trust`.

    An equal save by another agent or in another session changes nothing: the entry stays the one's who
    brought it.
    """
    if draft.content != entry.content:
        return Change.VERSION
    if _is_same(entry, draft) and (trust == entry.trust or not draft.derived_from):
        is_equal = (draft.attributes, draft.expires) == (entry.attributes, entry.expires)
        return Change.NONE if is_equal else Change.IN_PLACE
    return Change.IN_PLACE if draft.in_place else Change.ATTRIBUTES


def change_by_import(entry: Entry | None, draft: Draft, updated: int) -> Change:
    """Return the effect of an import: none on an entry that is equal or was changed later."""
    if entry is None:
        return Change.CREATED
    has_same_text = draft.content == entry.content
    is_same = has_same_text and _is_same(entry, draft) and dict(draft.attributes) == entry.attributes
    if is_same or updated <= entry.updated:
        return Change.NONE
    return Change.ATTRIBUTES if has_same_text else Change.VERSION


def is_held_by_import(entry: Entry | None, draft: Draft, change: Change) -> bool:
    """Return whether an import that quarantines its text does so with the text that is live then."""
    return entry is None or change is not Change.NONE or entry.content == draft.content


def outcome_of_import(
    entry: Entry | None, entry_id: str, change: Change, *, quarantined: bool = False
) -> SaveOutcome:
    """Return the outcome of an import but for its jobs; `version` is the one that is live then."""
    if entry is None:
        return SaveOutcome(id=entry_id, version=1, change=change, quarantined=quarantined)
    return SaveOutcome(
        id=entry.id,
        version=entry.version + change.is_version,
        change=change,
        pending=entry.pending,
        embedded=entry.embedded,
        quarantined=quarantined,
    )


def refuse_other_entry(entry: Entry, draft: Draft) -> None:
    """Raise `InvalidInput` unless the draft has the entry's namespace, collection and key.

    The key of a learning follows from its text, and changes with it.
    """
    is_there = (entry.namespace, entry.collection) == (draft.namespace, draft.collection)
    if not is_there or (entry.key != draft.key and entry.collection != "learning"):
        raise InvalidInput(f"The id {entry.id!r} already belongs to another entry.", hint="Remove the line.")


def rechunked(entry: Entry, *, labels: str, header: str) -> Draft:
    """Return the draft of a stored version with its content cut into chunks again."""
    return Draft(
        namespace=entry.namespace,
        collection=entry.collection,
        content=entry.content,
        spans=tuple(chunk_entry(entry.content, source=entry.attributes.get("source"))),
        chunking=CHUNKING_VERSION,
        attributes=entry.attributes,
        labels=labels,
        header=header,
        origin=entry.origin,
        trust=entry.trust,
        principal=entry.principal,
    )


def check_version(live: int, if_version: int | None) -> None:
    """Raise `VersionConflict` unless the live version is `if_version`; 0 means that there is no entry."""
    if if_version is not None and if_version != live:
        what = f"is at version {live}." if live else "does not exist."
        raise VersionConflict(f"if_version is {if_version}, but the entry {what}")


def check_repeated(key: IdempotencyKey, digest: bytes) -> None:
    """Check a save whose Idempotency-Key was used before, by a request with this digest.

    Raises:
        Forgotten: what that request saved was removed.
        IdempotencyKeyReused: it was another request.
    """
    if digest == FORGOTTEN_DIGEST:
        raise Forgotten(
            "What was saved under this Idempotency-Key was forgotten, or has expired.",
            hint="To save it again, use a new Idempotency-Key.",
        )
    if digest != key.digest:
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")


def unknown_entry(entry_id: str, version: int | None = None) -> NotFound:
    """Return the error for an entry that does not exist, or may not be read. A key is not an id."""
    which = f"Version {version} of entry" if version is not None else "Entry"
    hint = "`agentctx list` shows the ids."
    if not is_id(entry_id):
        named = f"key={entry_id!r}" if len(entry_id) <= MAX_NAME_CHARS else "key=…"
        hint = f"If it is a key, use get({named}) in Python, GET /v1/entries?key=… over HTTP. {hint}"
    return NotFound(f"{which} {entry_id!r} does not exist.", hint=hint)


def is_expired(entry: Entry, now: int) -> bool:
    """Return whether an entry has expired, whether or not it was swept yet."""
    return entry.expires is not None and entry.expires <= now


def attributes_text(attributes: Mapping[str, Any]) -> str:
    """Encode attributes as they are stored."""
    return _ENCODE(attributes)


def _is_same(entry: Entry, draft: Draft) -> bool:
    """Return whether the time to live and the attributes are equal, but for when a file was written."""
    return _without_file(draft.attributes) == _without_file(entry.attributes) and (
        draft.expires == entry.expires or (draft.ttl is not None and draft.ttl == _ttl(entry))
    )


def _without_file(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name != "file"}


def _ttl(entry: Entry) -> int | None:
    if entry.ttl is None and entry.expires is not None:
        return entry.expires - entry.updated
    return entry.ttl
