"""The statements of quarantine and revocation on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.quarantine import (
    CutAgain,
    FindOfNamespace,
    FindSound,
    NoteHidden,
    RemoveChunks,
)
from agentctx.storage.records import Entry, Job
from agentctx.storage.revocation import FindReached, RevocationExists
from agentctx.storage.trust_storage import FindProvenance
from agentctx_postgresql import locks, sql
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks, lookup
from agentctx_postgresql.entries.chunks import RESERVED_MS, Reservation
from agentctx_postgresql.erasures import record_erasure
from agentctx_postgresql.trust import provenance
from agentctx_postgresql.upkeep import repair

_OF_NAMESPACE: Final = """SELECT id FROM entries WHERE id = ANY ($1::text[]) AND live AND namespace = $2
    AND (NOT $3 OR attributes->'file' IS NOT NULL)"""


async def _of_namespace(conn: Connection, wanted: FindOfNamespace) -> list[str]:
    rows = await conn.fetch(_OF_NAMESPACE, wanted.entries, wanted.namespace, wanted.with_file)
    return [row["id"] for row in rows]


async def _find_reached(conn: Connection, wanted: FindReached) -> list[Any]:
    if wanted.locks:
        await locks.lock_trust(conn)
    return await sql.fetch(conn, wanted.rows("e.attributes->>'source'"))


async def _revocation_exists(conn: Connection, wanted: RevocationExists) -> bool:
    await locks.lock_trust(conn)
    return await conn.fetchval("SELECT 1 FROM revocations WHERE id = $1", wanted.revocation) is not None


async def _find_sound(conn: Connection, wanted: FindSound) -> tuple[int, Entry] | None:
    try:
        return await lookup.get(conn, wanted.entry, now=wanted.now)
    except StorageCorrupt:
        return None


async def _cut_again(conn: Connection, wanted: CutAgain) -> Sequence[Job]:
    reservation = Reservation(wanted.daemon, wanted.now + RESERVED_MS) if wanted.daemon is not None else None
    return await repair.rechunk(conn, wanted.seq, wanted.entry, now=wanted.now, reservation=reservation)


TRUST_STATEMENTS: Final[sql.Functions] = {
    FindProvenance: lambda conn, each: provenance.provenance(conn, each.entries),
    FindOfNamespace: _of_namespace,
    FindReached: _find_reached,
    RevocationExists: _revocation_exists,
    NoteHidden: lambda conn, each: record_erasure(conn, each.entries),
    FindSound: _find_sound,
    RemoveChunks: lambda conn, each: chunks.remove(conn, each.seq),
    CutAgain: _cut_again,
}
