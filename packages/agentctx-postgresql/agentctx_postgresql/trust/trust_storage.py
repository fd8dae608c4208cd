"""Provenance and quarantine, and entries whose file could not be seen or says something else.

A withdrawn entry is held back like one in quarantine: it keeps its versions, and returns with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from agentctx.errors import NotFound, StorageCorrupt
from agentctx.storage.records import Job
from agentctx.storage.trust import RevocationResult, SettledRows, Source
from agentctx.wire import FileMark
from agentctx_postgresql import locks
from agentctx_postgresql.connections import CHECK_TIMEOUT_S, PostgresqlPart, reads, writes
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks, lookup, saving
from agentctx_postgresql.entries.chunks import RESERVED_MS, Reservation
from agentctx_postgresql.erasures import record_erasure
from agentctx_postgresql.trust import provenance as recorded
from agentctx_postgresql.trust import quarantine, revocation
from agentctx_postgresql.upkeep import repair

_UNSETTLED: Final = "SELECT entry FROM quarantine WHERE state <> 'withdrawn' ORDER BY entry LIMIT $1"
_TAKEN: Final = """SELECT entry, state, revocation FROM quarantine
    WHERE state <> 'withdrawn' AND entry = ANY($1::text[]) ORDER BY entry FOR UPDATE"""


async def settle(conn: Connection, *, now: int, reservation: Reservation | None, limit: int) -> SettledRows:
    """Apply the states of up to `limit` rows."""
    ids = [row[0] for row in await conn.fetch(_UNSETTLED, limit)]
    if not ids:
        return SettledRows(0)
    await locks.lock_spaces_shared(conn)
    await locks.lock_entries(conn, ids)
    rows = await conn.fetch(_TAKEN, ids)
    jobs: list[Job] = []
    erased = []
    for entry_id, state, revoked_by in rows:
        if state == "returning":
            await conn.execute("DELETE FROM quarantine WHERE entry = $1", entry_id)
            jobs += await _put_back(conn, entry_id, now=now, reservation=reservation)
            continue
        if state == "held":
            await _withdraw(conn, entry_id)
        elif await _is_erased(conn, entry_id, revoked_by, now=now):
            erased.append(entry_id)
        await conn.execute("UPDATE quarantine SET state = 'withdrawn' WHERE entry = $1", entry_id)
    # Counts entries that another daemon has settled meanwhile, too: more may follow.
    return SettledRows(len(ids), tuple(erased), tuple(jobs))


async def _withdraw(conn: Connection, entry_id: str) -> None:
    seq = await conn.fetchval("SELECT seq FROM entries WHERE id = $1 AND live", entry_id)
    if seq is not None:
        await chunks.remove(conn, seq)


async def _is_erased(conn: Connection, entry_id: str, revocation: int, *, now: int) -> bool:
    principal = await conn.fetchval("SELECT principal FROM revocations WHERE id = $1", revocation)
    try:
        await saving.delete(conn, entry_id, now=now, principal=principal)
    except NotFound:
        return False
    return True


async def _put_back(
    conn: Connection, entry_id: str, *, now: int, reservation: Reservation | None
) -> Sequence[Job]:
    """Rechunk the live version and create its jobs. Does nothing if it has chunks or is gone."""
    try:
        found = await lookup.get(conn, entry_id, now=now)
    except StorageCorrupt:
        return ()
    if found is None or await conn.fetchval("SELECT 1 FROM chunks WHERE entry = $1 LIMIT 1", found[0]):
        return ()
    return await repair.rechunk(conn, *found, now=now, reservation=reservation)


_OF_NAMESPACE: Final = """SELECT id FROM entries WHERE id = ANY ($1::text[]) AND live AND namespace = $2
    AND ($3 OR attributes->'file' IS NOT NULL)"""
_MARK: Final = """INSERT INTO file_states AS f (entry, state, reason, since)
    SELECT unnest($1::text[]), $2, $3, $4 ON CONFLICT (entry) DO UPDATE SET
      since = CASE f.state WHEN excluded.state THEN f.since ELSE excluded.since END,
      state = excluded.state, reason = excluded.reason"""
_EXPIRED: Final = """SELECT file_states.entry, e.seq FROM file_states
    LEFT JOIN entries e ON e.id = file_states.entry AND e.live
    LEFT JOIN quarantine ON quarantine.entry = file_states.entry
    WHERE (e.seq IS NULL OR file_states.state = 'withdrawn' AND file_states.since < $1
      AND quarantine.revocation IS NULL)"""


async def _mark_files(
    conn: Connection, namespace: str, marks: Sequence[FileMark], *, now: int
) -> tuple[int, list[str]]:
    """Mark the entries; return how many exist, and the withdrawn ones."""
    await locks.lock_entries(conn, sorted({entry for each in marks for entry in each.entries}))
    count = 0
    withdrawn: list[str] = []
    for each in marks:
        rows = await conn.fetch(_OF_NAMESPACE, each.entries, namespace, each.state == "present")
        found = [row["id"] for row in rows]
        count += len(found)
        await _mark_all(conn, found, each, now=now)
        if each.state == "withdrawn":
            withdrawn += found
    if withdrawn:
        await record_erasure(conn, withdrawn)
    return count, withdrawn


async def _expire_withdrawn(conn: Connection, *, before: int, limit: int, now: int) -> list[str]:
    """Erase entries withdrawn before a time, and remove the states of erased ones; return all their ids."""
    ids = [row[0] for row in await conn.fetch(f"{_EXPIRED} ORDER BY 1 LIMIT $2", before, limit)]
    if not ids:
        return []
    await locks.lock_spaces_shared(conn)
    await locks.lock_entries(conn, ids)
    rows = await conn.fetch(f"{_EXPIRED} AND file_states.entry = ANY ($2::text[])", before, ids)
    for entry_id, seq in rows:
        if seq is not None:
            await saving.expire(conn, seq, entry_id, now=now)
    expired = [row[0] for row in rows]
    await conn.execute("DELETE FROM file_states WHERE entry = ANY ($1::text[])", expired)
    await quarantine.give_back(conn, expired)
    return expired


async def _mark_all(conn: Connection, entry_ids: Sequence[str], wanted: FileMark, *, now: int) -> None:
    if wanted.state == "present":
        await conn.execute("DELETE FROM file_states WHERE entry = ANY ($1::text[])", list(entry_ids))
    else:
        await conn.execute(_MARK, list(entry_ids), wanted.state, wanted.reason, now)
    if wanted.state == "withdrawn":
        await quarantine.hold_back(conn, entry_ids, now=now)
    else:
        await quarantine.give_back(conn, entry_ids)


class PostgresqlTrust(PostgresqlPart):
    """`TrustStorage` on a PostgreSQL server."""

    provenance = reads(recorded.provenance)
    quarantined = reads(quarantine.count)
    release = writes(quarantine.release)
    undo_revocation = writes(revocation.undo)
    forget_revoked = writes(revocation.forget)

    async def revoke(self, source: Source, *, principal: int, dry_run: bool) -> RevocationResult:
        now = self.db.clock()
        revoke = partial(revocation.revoke, source=source, principal=principal, now=now, dry_run=dry_run)
        if dry_run:
            return (await self.db.read(revoke, CHECK_TIMEOUT_S))[0]
        revoked, _ = await self.db.write(revoke, lambda done: self.db.erasures.note_quarantined(done[1]))
        return revoked

    async def mark_files(self, namespace: str, marks: Sequence[FileMark]) -> int:
        mark = partial(_mark_files, namespace=namespace, marks=marks, now=self.db.clock())
        marked, _ = await self.db.write(mark, lambda done: self.db.erasures.note_quarantined(done[1]))
        return marked

    async def expire_withdrawn(self, *, before: int, limit: int = 50) -> int:
        expire = partial(_expire_withdrawn, before=before, limit=limit, now=self.db.clock())
        erased = await self.db.write(expire, self._note_expired)
        return len(erased)

    def _note_expired(self, erased: Sequence[str]) -> None:
        if erased:
            self.db.erasures.note_deletion(erased)

    async def settle(self, *, embed: bool, limit: int = 50) -> SettledRows:
        now = self.db.clock()
        reserved = None
        if embed:
            reserved = Reservation(self.db.daemon, now + RESERVED_MS)
        return await self.db.write(
            partial(settle, now=now, reservation=reserved, limit=limit), self._note_settled
        )

    def _note_settled(self, settled: SettledRows) -> None:
        if settled.rows:
            self.db.erasures.note_deletion(settled.erased)
