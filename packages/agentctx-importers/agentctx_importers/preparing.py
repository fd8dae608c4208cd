"""Turns records of any source into entries to import: valid names, ordered times, own ids. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from agentctx.names import UNPRINTABLE, name_from, normalised
from agentctx.storage.ids import derived_id, id_of_capture
from agentctx.text.screening.rules import load_rules
from agentctx.text.screening.screener import screen
from agentctx.times import format_time
from agentctx.wire import ImportEntry, ImportTrust
from agentctx_importers.records import MAX_KNOWN_IDS, Item, Record, RefusedItem, printed

MAX_CONTENT_CHARS: Final = 200_000
"""Longer texts become several entries. The daemon's own limit is higher unless it was lowered."""
MAX_PARTS: Final = 50
MAX_TAGS: Final = 32
MAX_TAG_CHARS: Final = 64
MAX_SOURCE_CHARS: Final = 2_048
_CATEGORIES: Final = frozenset({"rule", "definition", "preference", "fact", "pattern", "correction"})
_NO_TEXT: Final = re.compile("[\x00\ud800-\udfff]")
_FIRST_MS: Final = 0
"""1970: what claims to be older has no time."""
_LAST_MS: Final = 1 << 42
"""2109: the same for what claims to be younger."""


class PreparedEntry(NamedTuple):
    """An entry to import, with the trust that its source gives it, and where it stands in the source.

    There is no entry if it is refused, for `reason`, or the source has one with this id already.
    """

    where: str
    entry: ImportEntry | None
    trust: ImportTrust = "external"
    reason: str = ""
    is_duplicate: bool = False


def prepare(
    kind: str, items: Iterable[Item], namespace: str, now: int, *, is_given: bool = False
) -> Iterator[PreparedEntry]:
    """Yield the entries of a source's records, saved in `namespace` unless they say where they belong.

    With `is_given` all are saved there; of several with one id, the first one. `now` (milliseconds) replaces
    unknown times and limits known ones.
    """
    known: set[int] = set()
    for item in items:
        for prepared in _prepared(kind, item, namespace, now, is_given=is_given):
            number = hash(prepared.entry and prepared.entry.id)
            if prepared.entry is not None and number in known:
                yield PreparedEntry(prepared.where, None, is_duplicate=True)
                continue
            if len(known) < MAX_KNOWN_IDS:
                known.add(number)
            yield prepared


def _prepared(kind: str, item: Item, namespace: str, now: int, *, is_given: bool) -> Iterator[PreparedEntry]:
    if isinstance(item, RefusedItem):
        yield PreparedEntry(printed(item.where), None, reason=item.reason)
        return
    if isinstance(item, ImportEntry):
        entry = replace(item, namespace=namespace) if is_given else item
        yield PreparedEntry(printed(entry.key or entry.id), entry)
        return
    where, record = printed(item.key or item.id), _cleaned(item)
    most = MAX_CONTENT_CHARS * MAX_PARTS
    if not record.content.strip() and record.collection != "learning":
        yield PreparedEntry(where, None, reason="It has no text.")
    elif len(record.content) > most:
        yield PreparedEntry(where, None, reason=f"Its text has more than {most:,} characters.")
    else:
        target = (not is_given and record.namespace) or namespace
        for part in _parts(record):
            yield PreparedEntry(where, _entry(kind, part, target, now), trust_of(part))


def entry_id(kind: str, namespace: str, record: Record) -> str:
    """Return the id of the entry of a record: the same in every import into this namespace.

    Lists are in the order of ids, so it begins with when the record was created; with 1970 if only its file
    says so, which is changed.
    """
    created = record.created if record.is_dated and record.created is not None else 0
    dated = created if _FIRST_MS < created < _LAST_MS else 0
    return derived_id(json.dumps([kind, record.id]), dated, namespace)


def trust_of(record: Record) -> ImportTrust:
    """Return the trust that the record has: what resembles instructions is external."""
    if record.trust == "external" or screen(record.content, load_rules()):
        return "external"
    return record.trust


def _cleaned(record: Record) -> Record:
    return record._replace(
        content=_NO_TEXT.sub("\ufffd", record.content),
        fields={
            name: _NO_TEXT.sub("\ufffd", value) if isinstance(value, str) else value
            for name, value in record.fields.items()
        },
    )


def _parts(record: Record) -> Iterator[Record]:
    """Yield the record, or if its text is too long its parts, which have numbers."""
    texts = list(split(record.content, MAX_CONTENT_CHARS))
    yield record._replace(content=texts[0])
    for number, text in enumerate(texts[1:], start=2):
        key = record.key and f"{name_from(record.key)[:240]} ({number})"
        yield record._replace(id=f"{record.id}\n{number}", key=key, content=text)


def split(text: str, most: int) -> Iterator[str]:
    """Yield parts of at most `most` characters, which end with a line where a line is not too long."""
    while len(text) > most:
        end = text.rfind("\n", most // 2, most) + 1 or most
        yield text[:end]
        text = text[end:]
    yield text


def _entry(kind: str, record: Record, namespace: str, now: int) -> ImportEntry:
    created, updated = times(record, now)
    needs_session = record.collection in {"observation", "reflection"}
    session = record.session or (f"import:{kind}" if needs_session else None)
    return ImportEntry(
        id=id_of_capture(record.capture, namespace) or entry_id(kind, namespace, record),
        namespace=namespace,
        collection=record.collection,
        key=record.key and name_from(record.key),
        session=session and name_from(session),
        agent=record.agent and name_from(record.agent),
        content=record.content,
        attributes=_attributes(record),
        created=format_time(created),
        updated=format_time(updated),
        expires=None if record.expires is None else format_time(record.expires),
    )


def times(record: Record, now: int) -> tuple[int, int]:
    """Return when the record was created and updated, in order and not in the future."""
    known = [each for each in (record.created, record.updated) if each is not None and each > _FIRST_MS]
    created = min([*known, now])
    return created, max(created, min(record.updated or created, now))


def _attributes(record: Record) -> dict[str, Any]:
    labels, known = [*record.tags], {**record.fields}
    if record.category and record.collection == "knowledge" and record.category not in _CATEGORIES:
        labels.append(record.category)
    elif record.category:
        known["category"] = record.category
    if tags := [tag for each in labels if (tag := normalised(printed(each)[:MAX_TAG_CHARS]))]:
        known["tags"] = list(dict.fromkeys(tags))[:MAX_TAGS]
    if record.source and (source := printed_source(record.source)):
        known["source"] = source
    return known


def printed_source(source: str) -> str:
    """Return a path or an address as an entry's `source`."""
    return re.sub(UNPRINTABLE, " ", source)[:MAX_SOURCE_CHARS].strip()
