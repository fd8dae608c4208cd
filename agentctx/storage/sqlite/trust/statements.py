"""The statements of quarantine and revocation on the SQLite file."""

from __future__ import annotations

import json
from typing import Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.file.driver import Connection
from agentctx.storage.quarantine import (
    CutAgain,
    FindOfNamespace,
    FindSound,
    LockTrust,
    NoteHidden,
    RemoveChunks,
)
from agentctx.storage.records import Entry
from agentctx.storage.revocation import FindReached
from agentctx.storage.sqlite import sql
from agentctx.storage.sqlite.entries import chunks, lookup
from agentctx.storage.sqlite.search.filters import ATTRIBUTES
from agentctx.storage.sqlite.trust import provenance
from agentctx.storage.sqlite.upkeep import repair
from agentctx.storage.trust_storage import FindProvenance

# The join order is fixed; otherwise the whole namespace would be read.
_OF_NAMESPACE: Final = """SELECT e.id,
      json_valid(e.attributes) AND json_extract(e.attributes, '$.file') IS NOT NULL
    FROM json_each(?) AS wanted CROSS JOIN entries e ON e.id = wanted.value AND e.live = 1
    WHERE e.namespace = ?"""


def _of_namespace(conn: Connection, wanted: FindOfNamespace) -> list[str]:
    rows = conn.execute(_OF_NAMESPACE, (json.dumps(wanted.entries), wanted.namespace))
    return [entry for entry, has_file in rows if has_file or not wanted.with_file]


def _find_sound(conn: Connection, wanted: FindSound) -> tuple[int, Entry] | None:
    try:
        return lookup.get(conn, wanted.entry, now=wanted.now)
    except StorageCorrupt:
        return None


TRUST_STATEMENTS: Final[sql.Functions] = {
    FindProvenance: lambda conn, each: provenance.known(conn, each.entries),
    FindOfNamespace: _of_namespace,
    FindReached: lambda conn, each: sql.execute(
        conn, each.rows(f"json_extract({ATTRIBUTES}, '$.source')")
    ).fetchall(),
    LockTrust: lambda _conn, _statement: None,
    NoteHidden: lambda _conn, _statement: None,
    FindSound: _find_sound,
    RemoveChunks: lambda conn, each: chunks.remove(conn, each.seq),
    CutAgain: lambda conn, each: repair.rechunk(
        conn, each.seq, each.entry, now=each.now, embed=each.daemon is not None
    ),
}
