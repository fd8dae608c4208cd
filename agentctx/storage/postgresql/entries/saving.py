"""Save, edit and remove entries. Every function runs inside the caller's transaction."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from agentctx.storage.audit import EXPIRE, FORGET, AuditedChange, Event, change_of_entry
from agentctx.storage.ids import new_id
from agentctx.storage.postgresql import locks
from agentctx.storage.postgresql.audit import audit_events, chain_set
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.entries import chunks, idempotency, lookup, new_versions
from agentctx.storage.postgresql.entries.chunks import Reservation
from agentctx.storage.postgresql.entries.rows import (
    IS_EMBEDDING,
    IS_PENDING,
)
from agentctx.storage.postgresql.erasures import record_erasure
from agentctx.storage.postgresql.trust import provenance
from agentctx.storage.records import Change, Draft, Entry, IdempotencyKey, Job, Revision, Saved
from agentctx.storage.versions import (
    Times,
    attributes_text,
    change_by_save,
    check_version,
    is_expired,
    least_trust,
    unknown_entry,
)
from agentctx.wire import Trust

_UPDATE: Final = """
UPDATE entries SET attributes = $2, agent = $3, trust = $4, updated = $5, expires = $6, size = $7,
  x = pg_current_xact_id()
WHERE seq = $1"""
_STATE: Final = f"SELECT {IS_EMBEDDING}, EXISTS (SELECT 1 FROM quarantine WHERE entry = $1)"  # noqa: S608 - constants


async def save(
    conn: Connection,
    draft: Draft,
    *,
    now: int,
    reservation: Reservation | None,
    if_version: int | None = None,
    idempotency_key: IdempotencyKey | None = None,
    revision: Revision | None = None,
    audited: AuditedChange | None = None,
) -> Saved:
    """Create an entry, or the next version of the live one with the same key.

    `audited`, if given, is recorded in the audit trail. Needs the shared lock on the spaces.
    """
    if idempotency_key and (earlier := await _earlier_answer(conn, idempotency_key, now)):
        return earlier
    found = await _take_by_key(conn, draft)
    erased: tuple[str, ...] = ()
    if found and is_expired(found[1], now):
        await expire(conn, found[0], found[1].id, now=now)
        erased, found = (found[1].id,), None
    check_version(found[1].version if found else 0, if_version)
    if found is None:
        entry_id = new_id(now, draft.namespace)
        draft = await provenance.apply_provenance(conn, draft, entry_id, now=now, is_new=True)
        saved = await insert_version(
            conn,
            draft,
            entry_id,
            times=Times(now, now, now),
            reservation=reservation,
            audited=audited,
        )
    else:
        seq, entry = found
        draft = revision(entry, draft) if revision else draft
        saved = await follow(conn, seq, entry, draft, now=now, reservation=reservation, audited=audited)
    if idempotency_key:
        await idempotency.remember(conn, idempotency_key, saved)
    return replace(saved, erased=erased)


async def revise(
    conn: Connection,
    entry_id: str,
    revision: Revision,
    *,
    now: int,
    reservation: Reservation | None,
    if_version: int | None = None,
    audited: AuditedChange | None = None,
) -> Saved:
    """Save the draft that `revision` builds from the live version. Needs the shared lock on the spaces."""
    await locks.lock_entries(conn, [entry_id])
    found = await lookup.get(conn, entry_id, now=now)
    if found is None:
        raise unknown_entry(entry_id)
    seq, entry = found
    check_version(entry.version, if_version)
    return await follow(
        conn,
        seq,
        entry,
        revision(entry, None),
        now=now,
        reservation=reservation,
        audited=audited,
    )


async def delete(
    conn: Connection,
    entry_id: str,
    *,
    now: int,
    if_version: int | None = None,
    principal: int | None = None,
) -> int:
    """Remove all versions, damaged or not, with everything that belongs to them. Needs the shared lock on
    the spaces.
    """
    await locks.lock_entries(conn, [entry_id])
    row = await conn.fetchrow(f"SELECT seq, version FROM entries WHERE {lookup.LIVE}", entry_id, now)  # noqa: S608 - constant
    if row is None:
        raise unknown_entry(entry_id)
    check_version(row["version"], if_version)
    return await _erase(conn, row["seq"], entry_id, action=FORGET, principal=principal, now=now)


async def expire(conn: Connection, live_seq: int, entry_id: str, *, now: int) -> None:
    """Remove all versions of an expired entry."""
    await _erase(conn, live_seq, entry_id, action=EXPIRE, principal=None, now=now)


async def sweep(conn: Connection, *, now: int, forget_before: int, limit: int) -> list[str]:
    """Remove up to `limit` expired entries, and idempotency keys from before `forget_before`; return ids."""
    await conn.execute("DELETE FROM idempotency WHERE created < $1", forget_before)
    await locks.lock_spaces_shared(conn)
    expired = "live AND expires <= $1"
    rows = await conn.fetch(f"SELECT id FROM entries WHERE {expired} LIMIT $2", now, limit)  # noqa: S608 - constant
    ids = sorted(row["id"] for row in rows)
    await locks.lock_entries(conn, ids)
    rows = await conn.fetch(
        f"SELECT seq, id FROM entries WHERE {expired} AND id = ANY ($2::text[])",  # noqa: S608 - constant
        now,
        ids,
    )
    for row in rows:
        await expire(conn, row["seq"], row["id"], now=now)
    return [row["id"] for row in rows]


async def follow(
    conn: Connection,
    seq: int,
    entry: Entry,
    draft: Draft,
    *,
    now: int,
    reservation: Reservation | None,
    updated: int | None = None,
    audited: AuditedChange | None = None,
) -> Saved:
    """Apply a draft to a live row: a new version, new attributes, or no change.

    `updated` must be later than the entry's; it defaults to `entry.next_update(now)`.
    """
    times = Times(entry.created, entry.next_update(now) if updated is None else updated, now)
    draft = await provenance.apply_provenance(conn, draft, entry.id, now=now)
    trust = least_trust(entry.trust, draft.trust)
    change = change_by_save(entry, draft, trust)
    if change is Change.VERSION:
        await chunks.remove(conn, seq)
        await conn.execute("UPDATE entries SET live = false WHERE seq = $1", seq)
        version = entry.version + 1
        draft = replace(draft, trust=trust)
        return await insert_version(
            conn,
            draft,
            entry.id,
            version,
            times=times,
            reservation=reservation,
            audited=audited,
        )
    if change is Change.NONE:
        return await _saved(conn, entry.id, entry.version, change, (), pending=entry.pending)
    jobs = await _update_attributes(
        conn, seq, entry.id, draft, times=times, trust=trust, reservation=reservation
    )
    if audited:
        chain = await chain_set.take(conn)
        event = change_of_entry(chain.secret, audited, draft, entry.id, entry.version, change, at=now)
        await audit_events.append(conn, chain, [event], now=now)
    return await _saved(conn, entry.id, entry.version, change, jobs, pending=entry.pending or bool(jobs))


async def insert_version(
    conn: Connection,
    draft: Draft,
    entry_id: str,
    version: int = 1,
    *,
    times: Times,
    reservation: Reservation | None,
    audited: AuditedChange | None = None,
) -> Saved:
    """Write a live version of a draft returned by `provenance.apply_provenance`."""
    new = await asyncio.to_thread(
        new_versions.build,
        draft,
        entry_id,
        version,
        times=times,
        reservation=reservation,
        audited=audited,
    )
    (saved,) = await new_versions.insert(conn, [new])
    return saved


async def _take_by_key(conn: Connection, draft: Draft) -> tuple[int, Entry] | None:
    """Return the live entry with the draft's key, locked against changes by other transactions."""
    if draft.key is None:
        return None
    place = draft.namespace, draft.collection, draft.key
    await locks.lock_key(conn, *place)
    found = await lookup.find(conn, *place)
    if found is None:
        return None
    await locks.lock_entries(conn, [found[1].id])
    return await lookup.find(conn, *place)


async def _update_attributes(
    conn: Connection,
    seq: int,
    entry_id: str,
    draft: Draft,
    *,
    times: Times,
    trust: Trust,
    reservation: Reservation | None,
) -> tuple[Job, ...]:
    jobs = await chunks.relabel(conn, seq, entry_id, draft, now=times.now, reservation=reservation)
    attributes = attributes_text(draft.attributes)
    await conn.execute(
        _UPDATE, seq, attributes, draft.agent, trust, times.updated, draft.expires, new_versions.size(draft)
    )
    return jobs


async def _erase(
    conn: Connection, live_seq: int, entry_id: str, *, action: str, principal: int | None, now: int
) -> int:
    collection, namespace = await conn.fetchrow(
        "SELECT collection, namespace FROM entries WHERE seq = $1", live_seq
    )
    detail = {"collection": collection}
    erasure = Event(kind=action, principal=principal, namespace=namespace, subject=entry_id, detail=detail)
    await audit_events.add(conn, [erasure], now=now)
    await chunks.remove(conn, live_seq)
    await conn.execute("DELETE FROM idempotency WHERE entry = $1", entry_id)
    await conn.execute("DELETE FROM flags WHERE entry = $1", entry_id)
    # A stored question that was answered with the entry may repeat its content.
    await conn.execute(
        """UPDATE injections SET question = NULL
           WHERE question IS NOT NULL AND strpos(candidates::text, $1) > 0""",
        entry_id,
    )
    await record_erasure(conn, [entry_id])
    rows = await conn.fetch("DELETE FROM entries WHERE id = $1 RETURNING 1", entry_id)
    return len(rows)


async def _saved(
    conn: Connection, entry_id: str, version: int, change: Change, jobs: tuple[Job, ...], *, pending: bool
) -> Saved:
    # An entry with jobs is in an enabled space, and not in quarantine.
    embedded, is_held = (True, False) if jobs else await conn.fetchrow(_STATE, entry_id)
    if is_held and change is not Change.CREATED:
        await record_erasure(conn, [entry_id])
    return Saved(
        id=entry_id,
        version=version,
        change=change,
        jobs=jobs,
        pending=pending,
        embedded=embedded,
        quarantined=is_held,
    )


async def _earlier_answer(conn: Connection, key: IdempotencyKey, now: int) -> Saved | None:
    found = await idempotency.begin(conn, key, now)
    if found is None:
        return None
    entry_id, version, change = found
    pending = await conn.fetchval(
        f"SELECT {IS_PENDING} FROM entries e WHERE e.id = $1 AND e.live",  # noqa: S608 - constant
        entry_id,
    )
    return await _saved(conn, entry_id, version, change, (), pending=bool(pending))
