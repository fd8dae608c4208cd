"""A memory of mem0 as a record, and an entry as what mem0's `add` takes. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from agentctx.wire import ExportedEntry
from agentctx_importers.json_values import json_object, text_in, time_ms
from agentctx_importers.own_entries import digest_of, entry_from, fields_of
from agentctx_importers.records import Item, Record, RefusedItem, printed

OURS: Final = "agentctx"
"""The member of `metadata` with the fields of an entry as JSON."""
_CATEGORY: Final = ("category", "categories")
_DATES: Final = ("created_at", "updated_at", "expiration_date")
_OWNERS: Final = ("user_id", "agent_id", "run_id", "actor_id", "role")
_OWN_MEMBERS: Final = frozenset(
    {
        "id",
        "data",
        "memory",
        "messages",
        "text_lemmatized",
        "hash",
        "metadata",
        "infer",
        "score",
        "attributed_to",
    }
    | {*_DATES, *_OWNERS}
)


def arguments_of(entries: Iterable[ExportedEntry]) -> Iterator[str]:
    """Yield the lines of a JSON list; mem0 takes each element as `memory.add(**element)`."""
    start = "["
    for exported in entries:
        entry = exported.entry
        fields = fields_of(entry) | {"digest": digest_of(entry.content, entry.attributes)}
        del fields["content"]
        named = {"category": entry.attributes.get("category"), "key": entry.key, "created_at": entry.created}
        value = {
            "messages": entry.content,
            "user_id": entry.namespace,
            **({"agent_id": entry.agent} if entry.agent else {}),
            **({"run_id": entry.session} if entry.session else {}),
            "metadata": {
                **{name: text for name, text in named.items() if text},
                OURS: json.dumps(fields, ensure_ascii=False),
            },
            "infer": False,
        }
        yield f"{start}{json.dumps(value, ensure_ascii=False)}"
        start = ","
    yield "]" if start == "," else "[]"


def item_of(where: str, memory: Any) -> Item:
    """Return the record of a memory: an element of `get_all`, arguments of `add`, or a payload of a store."""
    if not isinstance(memory, dict):
        return RefusedItem(where, "It is not a memory of mem0.")
    text = text_in(memory, "memory", "data", "messages")
    if text is None:
        return RefusedItem(where, "It has no text.")
    given = memory.get("metadata")
    known = given if isinstance(given, dict) else {}
    ours = text_in(known, OURS) or text_in(memory, OURS)
    if ours is not None:
        return _own(where, text, memory, ours)
    return _record(text, {**memory, **{name: known[name] for name in known if name not in memory}}, where)


def _own(where: str, text: str, memory: dict[str, Any], ours: str) -> Item:
    """Return an entry that agentctx exported; a text that mem0 changed is as new as mem0 says."""
    fields = json_object(ours)
    if fields is None:
        return RefusedItem(where, "Its metadata of agentctx are malformed.")
    changed = time_ms(memory.get("updated_at"))
    return entry_from(where, {**fields, "content": text}, changed=changed)


def _record(text: str, memory: dict[str, Any], where: str) -> Item:
    native = text_in(memory, "id")
    if native is None:
        return RefusedItem(where, "It has no id.")
    user, run = text_in(memory, "user_id"), text_in(memory, "run_id")
    category = text_in(memory, *_CATEGORY)
    labels = [value for name, value in memory.items() if name not in _OWN_MEMBERS and value != category]
    listed = [each for value in labels if isinstance(value, list) for each in value]
    return Record(
        id=native,
        key=f"mem0/{native}",
        content=text,
        tags=("mem0", *([f"user:{user}"] if user else []), *filter(_is_label, [*labels, *listed])),
        category=category,
        session=run,
        agent=text_in(memory, "agent_id"),
        created=time_ms(memory.get("created_at")),
        updated=time_ms(memory.get("updated_at")),
        expires=time_ms(memory.get("expiration_date")),
    )


def _is_label(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 64 and printed(value) == value
