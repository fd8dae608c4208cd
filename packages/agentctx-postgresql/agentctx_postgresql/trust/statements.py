"""The statements of provenance, quarantine and revocation on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.quarantine import (
    IS_LISTED_AS_HELD,
    CutAgain,
    FindSound,
    LockTrust,
    NoteHidden,
    RemoveChunks,
    reason_of,
)
from agentctx.storage.records import Entry, Job
from agentctx.storage.revocation import FindReached
from agentctx.storage.trust import NO_PROVENANCE, Provenance, RecordedState
from agentctx.storage.trust_storage import FindProvenance
from agentctx_postgresql import locks, sql
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks, lookup
from agentctx_postgresql.entries.chunks import RESERVED_MS, Reservation
from agentctx_postgresql.erasures import record_erasure
from agentctx_postgresql.upkeep import repair

_KNOWN: Final = f"""SELECT wanted.entry,
      ARRAY(SELECT flag FROM flags WHERE flags.entry = wanted.entry ORDER BY flag),
      ARRAY(SELECT source FROM derivations WHERE derivations.entry = wanted.entry ORDER BY source),
      quarantine.entry IS NOT NULL AND {IS_LISTED_AS_HELD}, quarantine.revocation, quarantine.waiting,
      file_states.state, file_states.reason, file_states.since
    FROM unnest($1::text[]) AS wanted (entry) LEFT JOIN quarantine USING (entry)
      LEFT JOIN file_states USING (entry)"""  # noqa: S608 - constant


async def _provenance(conn: Connection, entries: Sequence[str]) -> dict[str, Provenance]:
    """Return the provenance of each entry that has any."""
    found = {}
    for entry, flags, sources, is_held, revocation, waiting, *state in await conn.fetch(
        _KNOWN, list(entries)
    ):
        reason = reason_of(revocation, waiting) if is_held else None
        file_state = RecordedState(*state) if state[0] else None
        since = waiting if is_held else None
        found[entry] = Provenance(tuple(flags), tuple(sources), reason, revocation, file_state, since)
    return {entry: each for entry, each in found.items() if each != NO_PROVENANCE}


async def _find_sound(conn: Connection, wanted: FindSound) -> tuple[int, Entry] | None:
    try:
        return await lookup.get(conn, wanted.entry, now=wanted.now)
    except StorageCorrupt:
        return None


async def _cut_again(conn: Connection, wanted: CutAgain) -> Sequence[Job]:
    reservation = Reservation(wanted.daemon, wanted.now + RESERVED_MS) if wanted.daemon is not None else None
    return await repair.rechunk(conn, wanted.seq, wanted.entry, now=wanted.now, reservation=reservation)


TRUST_STATEMENTS: Final[sql.Functions] = {
    FindProvenance: lambda conn, each: _provenance(conn, each.entries),
    LockTrust: lambda conn, each: locks.lock_trust(conn, shared=each.shared),
    FindReached: lambda conn, each: sql.fetch(conn, each.rows("e.attributes->>'source'")),
    NoteHidden: lambda conn, each: record_erasure(conn, each.entries),
    FindSound: _find_sound,
    RemoveChunks: lambda conn, each: chunks.remove(conn, each.seq),
    CutAgain: _cut_again,
}
