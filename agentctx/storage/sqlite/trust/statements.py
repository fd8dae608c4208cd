"""The statements of quarantine and revocation on the SQLite file."""

from __future__ import annotations

from typing import Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.file.driver import Connection
from agentctx.storage.quarantine import (
    CutAgain,
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


def _find_sound(conn: Connection, wanted: FindSound) -> tuple[int, Entry] | None:
    try:
        return lookup.get(conn, wanted.entry, now=wanted.now)
    except StorageCorrupt:
        return None


TRUST_STATEMENTS: Final[sql.Functions] = {
    FindProvenance: lambda conn, each: provenance.known(conn, each.entries),
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
