"""Save, edit and remove entries. Every function runs inside the caller's transaction."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any, Final

from agentctx.storage.audit import EXPIRE, FORGET, Event, change_of_entry
from agentctx.storage.ids import new_id
from agentctx.storage.records import (
    FORGOTTEN_DIGEST,
    Change,
    Draft,
    Entry,
    IdempotencyKey,
    Job,
    Revision,
    SaveOutcome,
)
from agentctx.storage.versions import (
    Times,
    WriteOptions,
    attributes_text,
    change_by_save,
    check_repeated,
    check_version,
    is_expired,
    least_trust,
    refuse_taken_key,
    unknown_entry,
)
from agentctx_postgresql import locks
from agentctx_postgresql.audit import audit_events
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks, idempotency, lookup, new_versions
from agentctx_postgresql.entries.rows import IS_EMBEDDING, IS_PENDING, SELECT_ENTRY, verified
from agentctx_postgresql.erasures import record_erasure
from agentctx_postgresql.trust import provenance

_UPDATE: Final = """
UPDATE entries SET attributes = $2, labels = $3, header = $4, trust = $5, expires = $6, ttl = $7, size = $8,
  x = pg_current_xact_id()
WHERE seq = $1"""
_FORGET_VERSIONS: Final = """
DELETE FROM entries WHERE seq IN (
  SELECT seq FROM entries WHERE id = $1
  ORDER BY version IN (1, $2) DESC, version = (
    SELECT min(version) FROM entries WHERE id = $1 AND content_hash = (
      SELECT content_hash FROM entries WHERE id = $1 AND version = $2)) DESC, version DESC
  OFFSET $3)"""
_PRESENT: Final = f"""
SELECT found.*, EXISTS (SELECT 1 FROM flags WHERE flags.entry = found.id)
    OR EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = found.id) AS is_marked,
  earlier.digest AS earlier_digest, earlier.entry AS earlier_entry, earlier.version AS earlier_version,
  earlier.change AS earlier_change
FROM (SELECT) AS always
LEFT JOIN ({SELECT_ENTRY} WHERE e.namespace = $1 AND e.collection = $2 AND e.key = $3 AND e.live) AS found
  ON true
LEFT JOIN idempotency AS earlier ON earlier.principal = $4 AND earlier.key = $5"""  # noqa: S608 - constants
"""What a save depends on: the live entry with its key, and the answer to its Idempotency-Key."""
_STATE: Final = f"SELECT {IS_EMBEDDING}, EXISTS (SELECT 1 FROM quarantine WHERE entry = $1)"  # noqa: S608 - constants


async def save(
    conn: Connection,
    draft: Draft,
    options: WriteOptions,
    *,
    if_version: int | None = None,
    revision: Revision | None = None,
) -> SaveOutcome:
    """Create an entry, or the next version of the live one with the same key.

    Needs the shared lock on the spaces, and for a draft with a key the locks of `locks.begin_with_key`.
    """
    now, key = options.now, options.idempotency_key
    row = await conn.fetchrow(_PRESENT, *_key_of(draft), *_key_parameters(key))
    if key and row["earlier_digest"] is not None:
        return await _earlier_answer(conn, key, row)
    found = None if row["seq"] is None else (row["seq"], verified(row))
    erased: tuple[str, ...] = ()
    if found and is_expired(found[1], now):
        await expire(conn, found[0], found[1].id, now=now)
        erased, found = (found[1].id,), None
    check_version(found[1].version if found else 0, if_version)
    if found is None:
        entry_id = new_id(now, draft.namespace)
        draft = await provenance.apply_provenance(conn, draft, entry_id, now=now, is_clean=True)
        saved = await insert_version(conn, draft, entry_id, options, times=Times(now, now, now))
    else:
        revised = revision(found[1], draft) if revision else draft
        saved = await follow(conn, *found, revised, options, is_clean=not row["is_marked"])
    return replace(saved, erased=erased)


async def revise(
    conn: Connection,
    entry_id: str,
    revision: Revision,
    options: WriteOptions,
    *,
    if_version: int | None = None,
) -> SaveOutcome:
    """Save the draft that `revision` builds from the live version. Needs the shared lock on the spaces."""
    await locks.lock_entries(conn, [entry_id])
    found = await lookup.get(conn, entry_id, now=options.now)
    if found is None:
        raise unknown_entry(entry_id)
    check_version(found[1].version, if_version)
    return await follow(conn, *found, revision(found[1], None), options)


async def delete(
    conn: Connection,
    entry_id: str,
    *,
    now: int,
    if_version: int | None = None,
    principal: int | None = None,
    is_audited: bool = True,
) -> int:
    """Remove all versions, damaged or not, with everything that belongs to them. Needs the shared lock on
    the spaces.
    """
    await locks.lock_entries(conn, [entry_id])
    row = await conn.fetchrow(f"SELECT seq, version FROM entries WHERE {lookup.LIVE}", entry_id, now)  # noqa: S608 - constant
    if row is None:
        raise unknown_entry(entry_id)
    check_version(row["version"], if_version)
    action = FORGET if is_audited else None
    return await _erase(conn, row["seq"], entry_id, action=action, principal=principal, now=now)


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
    options: WriteOptions,
    *,
    updated: int | None = None,
    is_clean: bool = False,
) -> SaveOutcome:
    """Apply a draft to a live row: a new version, a change in place, or none.

    `updated` must be later than the entry's; it defaults to `entry.next_update(now)`. `is_clean` as in
    `provenance.apply_provenance`.
    """
    now = options.now
    times = Times(entry.created, entry.next_update(now) if updated is None else updated, now)
    draft = await provenance.apply_provenance(conn, draft, entry.id, now=now, is_clean=is_clean)
    trust = least_trust(entry.trust, draft.trust)
    change = change_by_save(entry, draft, trust)
    draft = replace(draft, trust=trust)
    if change.is_version:
        if draft.key is not None and draft.key != entry.key:
            await locks.lock_key(conn, draft.namespace, draft.collection, draft.key)
            refuse_taken_key(await lookup.find(conn, draft.namespace, draft.collection, draft.key))
        saved = await _add_version(conn, seq, entry, draft, options, times=times)
        if saved.version > options.max_versions:
            await conn.execute(_FORGET_VERSIONS, entry.id, saved.version, options.max_versions)
        return saved
    jobs: tuple[Job, ...] = ()
    if change is Change.IN_PLACE:
        jobs = await _update_in_place(conn, seq, entry, draft, options)
    pending = entry.pending or bool(jobs)
    saved = await _saved(conn, entry.id, entry.version, change, jobs, pending=pending)
    if options.idempotency_key:
        await idempotency.remember(conn, options.idempotency_key, saved, now)
    return saved


async def _add_version(
    conn: Connection, before: int, entry: Entry, draft: Draft, options: WriteOptions, *, times: Times
) -> SaveOutcome:
    """Write the next version. With the same content it gets the chunks of the row `before`."""
    is_carried = bool(draft.spans) and draft.content == entry.content
    if is_carried:
        old = await chunks.texts_of_version(conn, before)
        await conn.execute("UPDATE entries SET live = false WHERE seq = $1", before)
    else:
        await chunks.replace_version(conn, before)
    saved = await insert_version(
        conn,
        replace(draft, spans=()) if is_carried else draft,
        entry.id,
        options,
        entry.version + 1,
        times=times,
        change=Change.ATTRIBUTES if draft.content == entry.content else Change.VERSION,
    )
    if not is_carried:
        return saved
    seq = await conn.fetchval("SELECT seq FROM entries WHERE id = $1 AND live", entry.id)
    jobs = await chunks.carry(conn, before, seq, old, entry.id, draft, options)
    return replace(saved, jobs=jobs, pending=bool(jobs) or entry.pending)


async def insert_version(
    conn: Connection,
    draft: Draft,
    entry_id: str,
    options: WriteOptions,
    version: int = 1,
    *,
    times: Times,
    change: Change = Change.CREATED,
) -> SaveOutcome:
    """Write a live version of a draft returned by `provenance.apply_provenance`."""
    build = partial(new_versions.build, times=times, options=options, change=change)
    new = await asyncio.to_thread(build, draft, entry_id, version)
    return await new_versions.insert(conn, new)


async def _update_in_place(
    conn: Connection, seq: int, entry: Entry, draft: Draft, options: WriteOptions
) -> tuple[Job, ...]:
    old = await chunks.texts_of_version(conn, seq)
    if not draft.spans:
        await chunks.remove(conn, seq)
    if not draft.in_place:  # an equal save with a new end: its agent is not the entry's
        draft = replace(draft, labels=old.labels, header=old.header)
    await conn.execute(
        _UPDATE,
        seq,
        attributes_text(draft.attributes),
        draft.labels,
        draft.header,
        draft.trust,
        draft.expires,
        draft.ttl,
        new_versions.size(draft),
    )
    jobs = await chunks.carry(conn, seq, seq, old, entry.id, draft, options)
    if options.audited:
        what = (draft, entry.id, entry.version, Change.IN_PLACE)
        await audit_events.add(
            conn, [change_of_entry(options.audited, *what, at=options.now)], now=options.now
        )
    return jobs


async def _erase(
    conn: Connection, live_seq: int, entry_id: str, *, action: str | None, principal: int | None, now: int
) -> int:
    """Remove the entry. Without an action, the caller records it in the audit trail."""
    collection, namespace = await conn.fetchrow(
        "SELECT collection, namespace FROM entries WHERE seq = $1", live_seq
    )
    detail = {"collection": collection}
    if action is None:
        forgotten = "INSERT INTO forgotten (entry, at) VALUES ($1, $2) ON CONFLICT DO NOTHING"
        await conn.execute(forgotten, entry_id, now)
    else:
        erasure = Event(
            kind=action, principal=principal, namespace=namespace, subject=entry_id, detail=detail
        )
        await audit_events.add(conn, [erasure], now=now)
    await chunks.remove(conn, live_seq)
    await conn.execute("UPDATE idempotency SET digest = $2 WHERE entry = $1", entry_id, FORGOTTEN_DIGEST)
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
) -> SaveOutcome:
    # An entry with jobs is in an enabled space, and not in quarantine.
    embedded, is_held = (True, False) if jobs else await conn.fetchrow(_STATE, entry_id)
    if is_held and change is not Change.CREATED:
        await record_erasure(conn, [entry_id])
    return SaveOutcome(
        id=entry_id,
        version=version,
        change=change,
        jobs=jobs,
        pending=pending,
        embedded=embedded,
        quarantined=is_held,
    )


async def _earlier_answer(conn: Connection, key: IdempotencyKey, row: Any) -> SaveOutcome:
    """Return the answer in a row of `_PRESENT`. Raises like `check_repeated`."""
    check_repeated(key, row["earlier_digest"])
    entry_id = row["earlier_entry"]
    pending = await conn.fetchval(
        f"SELECT {IS_PENDING} FROM entries e WHERE e.id = $1 AND e.live",  # noqa: S608 - constant
        entry_id,
    )
    change = Change(row["earlier_change"])
    return await _saved(conn, entry_id, row["earlier_version"], change, (), pending=bool(pending))


def _key_of(draft: Draft) -> tuple[str, str, str | None]:
    return draft.namespace, draft.collection, draft.key


def _key_parameters(key: IdempotencyKey | None) -> tuple[int | None, str | None]:
    return (None, None) if key is None else (key.principal, key.key)
