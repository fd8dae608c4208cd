"""Selecting, checking and reading rows of entries."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from agentctx.errors import StorageCorrupt
from agentctx.storage.faults import Faults
from agentctx.storage.records import Entry
from agentctx.storage.sqlite import checksums

SEQ, VERSION, LIVE, CONTENT, ATTRIBUTES, HASH, HEADER, CHUNK = 0, 2, 3, 9, 10, 19, 21, 24
"""Columns of `SELECT_CHUNKS`: row number, version, live, content, attributes, hash of the content, header,
and the first of the chunk's id, start, end and hash."""
IS_PENDING = """EXISTS (SELECT 1 FROM jobs JOIN chunks ON chunks.id = jobs.chunk
    WHERE chunks.entry = e.seq AND jobs.space IN awaited_spaces)"""
IS_EMBEDDING = "EXISTS (SELECT 1 FROM spaces WHERE enabled = 1)"
_COLUMNS = """e.seq, e.id, e.version, e.live, e.namespace, e.collection, e.key, e.session, e.agent,
    e.content, e.attributes, e.origin, e.trust, e.principal, e.created, e.updated, e.expires"""
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
    head = (*row[1:CONTENT], content_hash, row[10], labels, header, scope, *row[11:17])
    checksums.check_head(head, checksum)


def undamaged(rows: Iterable[Any], faults: Faults, *, with_content: bool = True) -> list[Entry]:
    """Return the undamaged entries of the rows, and note the damaged ones."""
    found = []
    for row in rows:
        try:
            found.append(verified(row, with_content=with_content))
        except StorageCorrupt:
            faults.record("entry", row[1])
    return found


def entry_of(row: Any, *, content: str | None = None) -> Entry:
    """Return the entry in a row of `SELECT_ENTRY` or `SELECT_CHUNKS`; `content` replaces the row's."""
    return Entry(
        id=row[1],
        version=row[2],
        live=bool(row[3]),
        namespace=row[4],
        collection=row[5],
        key=row[6],
        session=row[7],
        agent=row[8],
        content=row[CONTENT] if content is None else content,
        attributes=json.loads(row[10]),
        origin=row[11],
        trust=row[12],
        principal=row[13],
        created=row[14],
        updated=row[15],
        expires=row[16],
        pending=bool(row[17]),
        embedded=bool(row[18]),
    )
