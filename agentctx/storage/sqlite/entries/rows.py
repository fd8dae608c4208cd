"""Selecting, checking and reading rows of entries."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from agentctx.storage.chunk_texts import ChunkTexts, stored_cues
from agentctx.storage.file.driver import Connection
from agentctx.storage.records import Entry
from agentctx.storage.sqlite import checksums

ID, VERSION, LIVE, CONTENT, ATTRIBUTES, HASH, HEADER, CHUNK = 1, 2, 3, 9, 10, 20, 22, 25
"""Columns of `SELECT_CHUNKS`: id, version, live, content, attributes, hash of the content, header,
and the first of the chunk's id, start, end and hash."""
IS_PENDING = """EXISTS (SELECT 1 FROM jobs JOIN chunks ON chunks.id = jobs.chunk
    WHERE chunks.entry = e.seq AND jobs.space IN awaited_spaces)"""
IS_EMBEDDING = "EXISTS (SELECT 1 FROM spaces WHERE enabled = 1)"
_FIELDS = tuple(field.name for field in fields(Entry))
_COLUMNS = "e.seq, " + ", ".join(f"e.{name}" for name in _FIELDS if name not in {"pending", "embedded"})
_PROOF = "e.content_hash, e.labels, e.header, e.scope, e.checksum"
SELECT_ENTRY = f"SELECT {_COLUMNS}, {IS_PENDING}, {IS_EMBEDDING}, {_PROOF} FROM entries e "  # noqa: S608 - constants
SELECT_HEAD = SELECT_ENTRY.replace("e.content,", "'',")
"""Without the content, which is most of a row."""
SELECT_ROW = f"SELECT {_COLUMNS}, 0, 0, {_PROOF} FROM entries e "  # noqa: S608 - constants
"""Without pending jobs."""
SELECT_CHUNKS = f"""SELECT {_COLUMNS}, 0, 0, {_PROOF},
    chunks.id, chunks.start_at, chunks.end_at, chunks.hash
    FROM json_each(?) wanted CROSS JOIN chunks ON chunks.id = wanted.value AND chunks.cue = 0
    CROSS JOIN entries e ON e.seq = chunks.entry """  # noqa: S608 - constants
"""For answers, which contain no cues and no pending state: chunks by id, each with its entry. The cross joins
seek the few wanted rows; the planner alone would scan the namespace."""
CUE_BYTES = """CASE WHEN instr(entries.attributes, '"cues":') AND json_valid(entries.attributes)
    THEN coalesce(octet_length(json_extract(entries.attributes, '$.cues')), 0) ELSE 0 END"""
"""SQL for the size of the cues in a row of `entries`."""


def verified(row: Any, *, with_content: bool = True) -> Entry:
    """Return the entry in a row of `SELECT_ENTRY`. Raises StorageCorrupt unless it matches its checksum."""
    check_row(row)
    if with_content:
        check_content(row)
    return entry_of(row)


def check_content(row: Any) -> None:
    """Raise StorageCorrupt unless the content of a row matches its hash."""
    checksums.check_content(row[1], row[CONTENT], row[HASH])


def check_row(row: Any) -> None:
    """Raise StorageCorrupt unless a row, apart from its content, matches its checksum."""
    content_hash, labels, header, scope, checksum = row[HASH:CHUNK]
    head = (*row[1:CONTENT], content_hash, row[10], labels, header, scope, *row[11:18])
    checksums.check_head(head, checksum)


def entry_of(row: Any, *, content: str | None = None) -> Entry:
    """Return the entry in a row of `SELECT_ENTRY` or `SELECT_CHUNKS`; `content` replaces the row's."""
    values = dict(zip(_FIELDS, row[1:CHUNK], strict=False))
    values["content"] = row[CONTENT] if content is None else content
    values["attributes"] = json.loads(row[ATTRIBUTES])
    for name in ("live", "pending", "embedded"):
        values[name] = bool(values[name])
    return Entry(**values)


def texts_of_version(conn: Connection, seq: int) -> ChunkTexts:
    """Return the texts of a stored version, damaged or not."""
    content, attributes, labels, header, scope = conn.execute(
        "SELECT content, attributes, labels, header, scope FROM entries WHERE seq = ?", (seq,)
    ).fetchone()
    return ChunkTexts(str(content), stored_cues(attributes), labels, header, scope)
