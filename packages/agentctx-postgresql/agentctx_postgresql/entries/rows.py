"""Select, verify and read rows of entries."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.chunk_texts import content_hash
from agentctx.storage.records import Entry

IS_PENDING: Final = """EXISTS (SELECT 1 FROM jobs JOIN chunks ON chunks.id = jobs.chunk
    WHERE chunks.entry = e.seq AND jobs.space IN (SELECT id FROM awaited_spaces))"""
IS_EMBEDDING: Final = "EXISTS (SELECT 1 FROM spaces WHERE enabled)"
_FIELDS: Final = tuple(field.name for field in fields(Entry))
_COLUMNS: Final = """e.seq, e.x::text::bigint AS x, e.id, e.version, e.live, e.namespace, e.collection, e.key,
    e.session, e.agent, e.content, e.content_hash, e.attributes, e.header, e.origin, e.trust, e.principal,
    e.created, e.updated, e.expires, e.ttl"""
SELECT_ENTRY: Final = f"""SELECT {_COLUMNS}, {IS_PENDING} AS pending, {IS_EMBEDDING} AS embedded
    FROM entries e """  # noqa: S608 - constants
SELECT_HEAD: Final = SELECT_ENTRY.replace("e.content,", "'' AS content,")
"""Omits the content, which is most of a row."""
SELECT_CHUNKS: Final = f"""SELECT {_COLUMNS}, e.labels, false AS pending, false AS embedded,
    c.id AS chunk, c.start_at, c.end_at, c.hash, {{distance}} AS distance,
    ARRAY(SELECT flag FROM flags WHERE flags.entry = e.id ORDER BY flag) AS flags,
    (SELECT reason FROM file_states WHERE file_states.entry = e.id) AS stale
    FROM unnest($1::bigint[]) wanted JOIN chunks c ON c.id = wanted AND c.cue = 0
    JOIN entries e ON e.seq = c.entry """  # noqa: S608 - constants
"""Chunks by id, each with its entry. For answers, which contain neither cues nor the pending state.

`distance` is an SQL expression."""


def verified(row: Any, *, with_content: bool = True) -> Entry:
    """Return the entry in a row of `SELECT_ENTRY`. Raises StorageCorrupt if its content is damaged."""
    if with_content and content_hash(row["content"]) != row["content_hash"]:
        raise StorageCorrupt(f"The entry {row['id'][:64]!r} is damaged on the disk.")
    return entry_of(row)


def entry_of(row: Any, *, content: str | None = None) -> Entry:
    """Return the entry in a row; `content` replaces the row's."""
    values = {name: row[name] for name in _FIELDS} | {"attributes": json.loads(row["attributes"])}
    return Entry(**(values if content is None else values | {"content": content}))
