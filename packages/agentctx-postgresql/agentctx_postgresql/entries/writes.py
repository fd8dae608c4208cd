"""Executes the statements of saving and forgetting entries, inside the caller's transaction.

It holds the shared lock on the spaces, and for a draft with a key the locks of `locks.begin_with_key`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from agentctx.storage import forgetting, saving
from agentctx.storage.audit import change_of_entry
from agentctx.storage.records import FORGOTTEN_DIGEST, Change, Job, SaveOutcome
from agentctx.storage.versions import attributes_text
from agentctx_postgresql import erasures, locks
from agentctx_postgresql.audit import audit_events
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks, new_versions
from agentctx_postgresql.entries.lookup import LIVE
from agentctx_postgresql.entries.rows import SELECT_ENTRY, verified

_FIND: Final = f"""
SELECT found.*, EXISTS (SELECT 1 FROM flags WHERE flags.entry = found.id)
    OR EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = found.id) AS is_marked,
  earlier.digest AS earlier_digest, earlier.entry AS earlier_entry, earlier.version AS earlier_version,
  earlier.change AS earlier_change
FROM (SELECT) AS always LEFT JOIN ({SELECT_ENTRY} WHERE e.live AND {{which}}) AS found ON true
LEFT JOIN idempotency AS earlier ON earlier.principal = $1 AND earlier.key = $2"""  # noqa: S608 - constants
_FIND_BY_ID: Final = _FIND.format(which="e.id = $3")
_FIND_BY_KEY: Final = _FIND.format(which="e.namespace = $3 AND e.collection = $4 AND e.key = $5")
_ROW: Final = "SELECT seq, id, version, namespace, collection FROM entries"
_EXPIRED: Final = "live AND expires <= $1"
_UPDATE: Final = """
UPDATE entries SET attributes = $2, labels = $3, header = $4, trust = $5, expires = $6, ttl = $7, size = $8,
  x = pg_current_xact_id()
WHERE seq = $1"""
_ERASE: Final = """
WITH forgotten AS (
    INSERT INTO forgotten (entry, at) SELECT $1::text, $3::bigint WHERE $3::bigint IS NOT NULL
    ON CONFLICT DO NOTHING),
  requests AS (UPDATE idempotency SET digest = $2::bytea WHERE entry = $1::text),
  flagged AS (DELETE FROM flags WHERE entry = $1::text),
  questions AS (
    UPDATE injections SET question = NULL
    WHERE question IS NOT NULL AND strpos(candidates::text, $1::text) > 0)
DELETE FROM entries WHERE id = $1::text RETURNING 1"""


async def find_live(conn: Connection, wanted: saving.FindLive) -> saving.FoundEntry:
    by, request = wanted.by, wanted.request
    key = (request.principal, request.key) if request else (None, None)
    if isinstance(by, str):
        row = await conn.fetchrow(_FIND_BY_ID, *key, by)
    else:
        row = await conn.fetchrow(_FIND_BY_KEY, *key, *(by or (None, None, None)))
    if request and row["earlier_digest"] is not None:
        return None, saving.EarlierSave(*row[-4:])
    return None if row["seq"] is None else saving.LiveEntry(row["seq"], verified(row), row["is_marked"]), None


async def find_row(conn: Connection, wanted: forgetting.FindRow) -> forgetting.LiveRow | None:
    row = await conn.fetchrow(f"{_ROW} WHERE {LIVE}", wanted.entry_id, wanted.now)
    return None if row is None else forgetting.LiveRow(*row)


async def find_expired(conn: Connection, wanted: forgetting.FindExpired) -> list[forgetting.LiveRow]:
    now = wanted.now
    found = await conn.fetch(f"SELECT id FROM entries WHERE {_EXPIRED} LIMIT $2", now, wanted.limit)  # noqa: S608 - constant
    ids = sorted(row["id"] for row in found)
    await locks.lock_entries(conn, ids)
    rows = await conn.fetch(f"{_ROW} WHERE {_EXPIRED} AND id = ANY ($2::text[])", now, ids)
    return [forgetting.LiveRow(*row) for row in rows]


async def lock(conn: Connection, wanted: forgetting.LockEntry) -> None:
    ids = []
    if wanted.key:
        await locks.lock_key(conn, *wanted.key)
    if wanted.entry_id:
        ids.append(wanted.entry_id)
        if wanted.key:
            which = "namespace = $1 AND collection = $2 AND key = $3 AND live"
            ids += [row[0] for row in await conn.fetch(f"SELECT id FROM entries WHERE {which}", *wanted.key)]  # noqa: S608 - constant
    await locks.lock_entries(conn, ids)


async def insert_version(conn: Connection, new: saving.InsertVersion) -> SaveOutcome:
    before, command = new.before, new.command
    if before is not None and new.is_carried:
        old = await chunks.texts_of_version(conn, before)
        await conn.execute("UPDATE entries SET live = false WHERE seq = $1", before)
    elif before is not None:
        await chunks.replace_version(conn, before)
    saved = await new_versions.insert(conn, await asyncio.to_thread(new_versions.build, new))
    if before is not None and new.is_carried:
        seq = await conn.fetchval("SELECT seq FROM entries WHERE id = $1 AND live", new.entry_id)
        jobs = await chunks.carry(conn, before, seq, old, new.entry_id, new.draft, command)
        saved = replace(saved, jobs=jobs, pending=bool(jobs))
    return saved


async def change_in_place(conn: Connection, wanted: saving.ChangeInPlace) -> tuple[Job, ...]:
    command, draft, (seq, entry, _) = wanted.command, wanted.draft, wanted.live
    old = await chunks.texts_of_version(conn, seq)
    if not draft.spans:
        await chunks.remove(conn, seq)
    if not draft.in_place:
        draft = replace(draft, labels=old.labels, header=old.header)
    changed = (draft.labels, draft.header, draft.trust, draft.expires, draft.ttl, new_versions.size(draft))
    await conn.execute(_UPDATE, seq, attributes_text(draft.attributes), *changed)
    jobs = await chunks.carry(conn, seq, seq, old, entry.id, draft, command)
    if command.audited:
        what = (draft, entry.id, entry.version, Change.IN_PLACE)
        event = change_of_entry(command.audited, *what, at=command.now)
        await audit_events.add(conn, [event], now=command.now)
    return jobs


async def forget_requests(conn: Connection, wanted: forgetting.ForgetRequests) -> None:
    await conn.execute("DELETE FROM idempotency WHERE created < $1", wanted.before)
    await erasures.discard_old(conn)


async def erase(conn: Connection, wanted: forgetting.Erase) -> int:
    seq, entry_id, *_ = wanted.row
    forgotten = wanted.now if wanted.event is None else None
    if wanted.event is not None:
        await audit_events.add(conn, [wanted.event], now=wanted.now)
    await chunks.remove(conn, seq)
    await erasures.record_erasure(conn, [entry_id])
    return len(await conn.fetch(_ERASE, entry_id, FORGOTTEN_DIGEST, forgotten))
