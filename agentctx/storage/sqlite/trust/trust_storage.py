"""Provenance and quarantine, and entries whose file could not be seen or says something else.

A withdrawn entry is held back like one in quarantine: it keeps its versions, and returns with them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Final

from agentctx.errors import NotFound, StorageCorrupt
from agentctx.storage.file.driver import Connection
from agentctx.storage.records import Job
from agentctx.storage.sqlite.connections import CHECK_TIMEOUT_S, SqlitePart, reads, writes
from agentctx.storage.sqlite.entries import chunks, lookup, saving
from agentctx.storage.sqlite.trust import provenance, quarantine, revocation
from agentctx.storage.sqlite.upkeep import repair
from agentctx.storage.trust import RevocationResult, SettledRows, Source
from agentctx.wire import FileMark


def settle(conn: Connection, *, now: int, embed: bool, limit: int) -> SettledRows:
    """Apply the states of up to `limit` rows."""
    rows = conn.execute(
        "SELECT entry, state, revocation FROM quarantine WHERE state <> 'withdrawn' LIMIT ?", (limit,)
    ).fetchall()
    jobs: list[Job] = []
    erased = []
    for entry_id, state, revoked_by in rows:
        if state == "returning":
            conn.execute("DELETE FROM quarantine WHERE entry = ?", (entry_id,))
            jobs += _put_back(conn, entry_id, now=now, embed=embed)
            continue
        if state == "held":
            _withdraw(conn, entry_id)
        elif _is_erased(conn, entry_id, revoked_by, now=now):
            erased.append(entry_id)
        conn.execute("UPDATE quarantine SET state = 'withdrawn' WHERE entry = ?", (entry_id,))
    return SettledRows(len(rows), tuple(erased), tuple(jobs))


def _withdraw(conn: Connection, entry_id: str) -> None:
    row = conn.execute("SELECT seq FROM entries WHERE id = ? AND live = 1", (entry_id,)).fetchone()
    if row is not None:
        chunks.remove(conn, row[0])


def _is_erased(conn: Connection, entry_id: str, revocation: int, *, now: int) -> bool:
    row = conn.execute("SELECT principal FROM revocations WHERE id = ?", (revocation,)).fetchone()
    principal = None if row is None else row[0]
    try:
        saving.delete(conn, entry_id, now=now, principal=principal)
    except NotFound:
        return False
    return True


def _put_back(conn: Connection, entry_id: str, *, now: int, embed: bool) -> Sequence[Job]:
    """Cut the live version again and create its jobs. Does nothing if it has chunks, or is gone."""
    try:
        found = lookup.get(conn, entry_id, now=now)
    except StorageCorrupt:
        return ()
    if found is None or conn.execute("SELECT 1 FROM chunks WHERE entry = ?", (found[0],)).fetchone():
        return ()
    return repair.rechunk(conn, *found, now=now, embed=embed)


_OF_NAMESPACE: Final = """SELECT e.id,
      json_valid(e.attributes) AND json_extract(e.attributes, '$.file') IS NOT NULL
    FROM json_each(?) AS wanted CROSS JOIN entries e ON e.id = wanted.value AND e.live = 1
    WHERE e.namespace = ?"""
_MARK: Final = """INSERT INTO file_states (entry, state, reason, since) VALUES (?, ?, ?, ?)
    ON CONFLICT (entry) DO UPDATE SET
      since = CASE state WHEN excluded.state THEN since ELSE excluded.since END,
      state = excluded.state, reason = excluded.reason"""
_EXPIRED: Final = """SELECT file_states.entry, e.seq FROM file_states
    LEFT JOIN entries e ON e.id = file_states.entry AND e.live = 1
    LEFT JOIN quarantine ON quarantine.entry = file_states.entry
    WHERE e.seq IS NULL OR file_states.state = 'withdrawn' AND file_states.since < ?
      AND quarantine.revocation IS NULL LIMIT ?"""


def _mark_files(
    conn: Connection, namespace: str, marks: Sequence[FileMark], *, now: int
) -> tuple[int, list[str]]:
    """Mark the entries; return how many exist, and the withdrawn ones."""
    count = 0
    withdrawn: list[str] = []
    for each in marks:
        found = conn.execute(_OF_NAMESPACE, (json.dumps(each.entries), namespace)).fetchall()
        for entry_id, has_file in found:
            if each.state != "present" and not has_file:
                continue
            count += 1
            _mark_one(conn, entry_id, each, now=now)
            if each.state == "withdrawn":
                withdrawn.append(entry_id)
    return count, withdrawn


def _expire_withdrawn(conn: Connection, *, before: int, limit: int, now: int) -> list[str]:
    """Erase entries withdrawn before a time, and remove the states of erased ones; return all their ids."""
    rows = conn.execute(_EXPIRED, (before, limit)).fetchall()
    for entry_id, seq in rows:
        if seq is not None:
            saving.expire(conn, seq, entry_id, now=now)
        conn.execute("DELETE FROM file_states WHERE entry = ?", (entry_id,))
        quarantine.give_back(conn, entry_id)
    return [entry_id for entry_id, _ in rows]


def _mark_one(conn: Connection, entry_id: str, wanted: FileMark, *, now: int) -> None:
    if wanted.state == "present":
        conn.execute("DELETE FROM file_states WHERE entry = ?", (entry_id,))
    else:
        conn.execute(_MARK, (entry_id, wanted.state, wanted.reason, now))
    if wanted.state == "withdrawn":
        quarantine.hold(conn, entry_id, outdated=True, now=now)
    else:
        quarantine.give_back(conn, entry_id)


class SqliteTrust(SqlitePart):
    """`TrustStorage` on the SQLite file."""

    provenance = reads(provenance.known)
    quarantined = reads(quarantine.count)
    release = writes(quarantine.release)
    undo_revocation = writes(revocation.undo)
    forget_revoked = writes(revocation.forget)

    async def revoke(self, source: Source, *, principal: int, dry_run: bool) -> RevocationResult:
        now = self.db.clock()
        revoke = partial(revocation.revoke, source=source, principal=principal, now=now, dry_run=dry_run)
        if dry_run:
            return (await self.db.readers.run(revoke, timeout_s=CHECK_TIMEOUT_S))[0]
        revoked, held = await self.db.writer.run(revoke)
        if held:
            # Drop cached copies of these entries.
            self.db.tidying.note_quarantined(held)
        return revoked

    async def mark_files(self, namespace: str, marks: Sequence[FileMark]) -> int:
        mark = partial(_mark_files, namespace=namespace, marks=marks, now=self.db.clock())
        marked, withdrawn = await self.db.writer.run(mark)
        if withdrawn:
            self.db.tidying.note_quarantined(withdrawn)
        return marked

    async def expire_withdrawn(self, *, before: int, limit: int = 50) -> int:
        expire = partial(_expire_withdrawn, before=before, limit=limit, now=self.db.clock())
        erased = await self.db.writer.run(expire)
        if erased:
            self.db.tidying.note_deletion(erased)
        return len(erased)

    async def settle(self, *, embed: bool, limit: int = 50) -> SettledRows:
        settled = await self.db.write(settle, now=self.db.clock(), embed=embed, limit=limit)
        if settled.rows:
            self.db.tidying.note_deletion(settled.erased)
        return settled
