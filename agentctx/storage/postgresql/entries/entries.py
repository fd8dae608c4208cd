"""Entries and their versions. Every function runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from agentctx.storage.audit import Deed
from agentctx.storage.chunk_texts import content_hash
from agentctx.storage.cues import cues_of
from agentctx.storage.entries import MOST_PAGE_CHARS
from agentctx.storage.faults import Faults
from agentctx.storage.ids import uuid7
from agentctx.storage.postgresql import locks
from agentctx.storage.postgresql.audit import deeds
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.entries import chunks, idempotency
from agentctx.storage.postgresql.entries.chunks import Reservation
from agentctx.storage.postgresql.entries.rows import (
    IS_EMBEDDING,
    IS_PENDING,
    SELECT_ENTRY,
    SELECT_HEAD,
    undamaged,
    verified,
)
from agentctx.storage.postgresql.erasures import record_erasure
from agentctx.storage.postgresql.search.filters import Parameters, entry_condition
from agentctx.storage.postgresql.trust import provenance
from agentctx.storage.records import Change, Draft, Entry, Filter, IdempotencyKey, Job, Revision, Saved
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

LAST_ROW: Final = 2**63 - 1
ROWS_AT_ONCE: Final = 20
"""Rows of a page that are fetched at once: a text may have a megabyte."""

_INSERT: Final = """
INSERT INTO entries (id, version, live, namespace, collection, key, session, agent, content, content_hash,
  attributes, labels, header, origin, trust, principal, created, updated, expires, size)
VALUES ($1, $2, true, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
RETURNING seq"""
_UPDATE: Final = """
UPDATE entries SET attributes = $2, agent = $3, trust = $4, updated = $5, expires = $6, size = $7,
  x = pg_current_xact_id()
WHERE seq = $1"""
_STATE: Final = f"SELECT {IS_EMBEDDING}, EXISTS (SELECT 1 FROM quarantine WHERE entry = $1)"  # noqa: S608 - constants
_LIVE: Final = "id = $1 AND live AND (expires IS NULL OR expires > $2)"


async def save(
    conn: Connection,
    draft: Draft,
    *,
    now: int,
    owed: Reservation | None,
    if_version: int | None = None,
    idempotency_key: IdempotencyKey | None = None,
    revision: Revision | None = None,
    deed: Deed | None = None,
) -> Saved:
    """Make the entry, or the next version of the live one with the same key.

    `deed`, if given, is what the audit trail says of it.
    """
    if idempotency_key and (earlier := await _earlier_answer(conn, idempotency_key, now)):
        return earlier
    await locks.share_spaces(conn)
    found = await _take_by_key(conn, draft)
    erased: tuple[str, ...] = ()
    if found and is_expired(found[1], now):
        await expire(conn, found[0], found[1].id, now=now)
        erased, found = (found[1].id,), None
    check_version(found[1].version if found else 0, if_version)
    if found is None:
        entry_id = uuid7(now)
        draft = await provenance.apply_provenance(conn, draft, entry_id, now=now, is_new=True)
        saved = await insert_version(conn, draft, entry_id, times=Times(now, now, now), owed=owed, deed=deed)
    else:
        seq, entry = found
        draft = revision(entry, draft) if revision else draft
        saved = await follow(conn, seq, entry, draft, now=now, owed=owed, deed=deed)
    if idempotency_key:
        await idempotency.remember(conn, idempotency_key, saved)
    return replace(saved, erased=erased)


async def revise(
    conn: Connection,
    entry_id: str,
    revision: Revision,
    *,
    now: int,
    owed: Reservation | None,
    if_version: int | None = None,
    deed: Deed | None = None,
) -> Saved:
    """Save what `revision` makes of the live version."""
    await locks.share_spaces(conn)
    await locks.take_entries(conn, [entry_id])
    found = await get(conn, entry_id, now=now)
    if found is None:
        raise unknown_entry(entry_id)
    seq, entry = found
    check_version(entry.version, if_version)
    return await follow(conn, seq, entry, revision(entry, None), now=now, owed=owed, deed=deed)


async def delete(
    conn: Connection,
    entry_id: str,
    *,
    now: int,
    if_version: int | None = None,
    principal: int | None = None,
) -> int:
    """Remove all versions with everything that hangs on them, damaged or not."""
    await locks.share_spaces(conn)
    await locks.take_entries(conn, [entry_id])
    row = await conn.fetchrow(f"SELECT seq, version FROM entries WHERE {_LIVE}", entry_id, now)  # noqa: S608 - constant
    if row is None:
        raise unknown_entry(entry_id)
    check_version(row["version"], if_version)
    return await _erase(conn, row["seq"], entry_id, action=deeds.FORGET, principal=principal, now=now)


async def expire(conn: Connection, live_seq: int, entry_id: str, *, now: int) -> None:
    """Remove all versions of an entry whose time is over."""
    await _erase(conn, live_seq, entry_id, action=deeds.EXPIRE, principal=None, now=now)


async def sweep(conn: Connection, *, now: int, forget_before: int, limit: int) -> list[str]:
    """Remove up to `limit` expired entries, and idempotency keys made before `forget_before`; returns ids."""
    await conn.execute("DELETE FROM idempotency WHERE created < $1", forget_before)
    await locks.share_spaces(conn)
    expired = "live AND expires <= $1"
    rows = await conn.fetch(f"SELECT id FROM entries WHERE {expired} LIMIT $2", now, limit)  # noqa: S608 - constant
    ids = sorted(row["id"] for row in rows)
    await locks.take_entries(conn, ids)
    rows = await conn.fetch(
        f"SELECT seq, id FROM entries WHERE {expired} AND id = ANY ($2::text[])",  # noqa: S608 - constant
        now,
        ids,
    )
    for row in rows:
        await expire(conn, row["seq"], row["id"], now=now)
    return [row["id"] for row in rows]


async def get(
    conn: Connection, entry_id: str, *, now: int, version: int | None = None
) -> tuple[int, Entry] | None:
    """Row and entry: the live version, or the one named. Raises StorageCorrupt."""
    row = await conn.fetchrow(
        f"""{SELECT_ENTRY} WHERE e.id = $1 AND (e.expires IS NULL OR e.expires > $2)
            AND CASE WHEN $3::int IS NULL THEN e.live ELSE e.version = $3 END""",
        entry_id,
        now,
        version,
    )
    return None if row is None else (row["seq"], verified(row))


async def namespace_of(conn: Connection, entry_id: str, *, now: int) -> str | None:
    """Of the live version, damaged or not; None where there is none."""
    found = await conn.fetchval(f"SELECT namespace FROM entries WHERE {_LIVE}", entry_id, now)  # noqa: S608 - constant
    return None if found is None else str(found)


async def find(conn: Connection, namespace: str, collection: str, key: str) -> tuple[int, Entry] | None:
    """Row and live entry with this key, expired or not."""
    row = await conn.fetchrow(
        f"{SELECT_ENTRY} WHERE e.namespace = $1 AND e.collection = $2 AND e.key = $3 AND e.live",
        namespace,
        collection,
        key,
    )
    return None if row is None else (row["seq"], verified(row))


async def page(
    conn: Connection,
    wanted: Filter,
    *,
    now: int,
    limit: int,
    before: int | None,
    with_content: bool = True,
    faults: Faults,
) -> tuple[list[Entry], int | None]:
    """Up to `limit` entries, newest first, below the row `before`; and where the next page begins.

    A page ends early after `MOST_PAGE_CHARS` of contents. Damaged entries are left out.
    """
    given = Parameters()
    condition = entry_condition(wanted, given, now=now)
    select = SELECT_ENTRY if with_content else SELECT_HEAD
    below = given.add(LAST_ROW if before is None else before)
    rows = conn.cursor(
        f"{select} WHERE {condition} AND e.seq < {below} ORDER BY e.seq DESC LIMIT {given.add(limit + 1)}",
        *given,
        prefetch=ROWS_AT_ONCE,
    )
    shown, is_last = await _shown(rows, limit)
    return undamaged(shown, faults, with_content=with_content), None if is_last else shown[-1]["seq"]


async def history(
    conn: Connection, entry_id: str, *, now: int, limit: int, before: int | None, faults: Faults
) -> tuple[list[Entry], int | None]:
    """Up to `limit` versions, newest first, older than `before`; and before which the next page begins.

    None when the live one has expired. A page ends early as `page` does, and has no damaged ones either.
    """
    if await namespace_of(conn, entry_id, now=now) is None:
        return [], None
    rows = conn.cursor(
        f"{SELECT_ENTRY} WHERE e.id = $1 AND e.version < $2 ORDER BY e.version DESC LIMIT $3",
        entry_id,
        2**31 - 1 if before is None else before,
        limit + 1,
        prefetch=ROWS_AT_ONCE,
    )
    shown, is_last = await _shown(rows, limit)
    return undamaged(shown, faults), None if is_last else shown[-1]["version"]


async def follow(
    conn: Connection,
    seq: int,
    entry: Entry,
    draft: Draft,
    *,
    now: int,
    owed: Reservation | None,
    updated: int | None = None,
    deed: Deed | None = None,
) -> Saved:
    """Make of a live row what the draft says: another version, other attributes, or nothing.

    `updated` must be later than that of `entry`; it defaults to `entry.next_update(now)`.
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
        return await insert_version(conn, draft, entry.id, version, times=times, owed=owed, deed=deed)
    if change is Change.NONE:
        return await _saved(conn, entry.id, entry.version, change, (), pending=entry.pending)
    jobs = await _update_attributes(conn, seq, entry.id, draft, times=times, trust=trust, owed=owed)
    await deeds.note_change(conn, deed, draft, entry.id, entry.version, change, now=now)
    return await _saved(conn, entry.id, entry.version, change, jobs, pending=entry.pending or bool(jobs))


async def insert_version(
    conn: Connection,
    draft: Draft,
    entry_id: str,
    version: int = 1,
    *,
    times: Times,
    owed: Reservation | None,
    deed: Deed | None = None,
) -> Saved:
    """Write a live version of a draft as `provenance.apply_provenance` returns it."""
    seq = await conn.fetchval(
        _INSERT,
        entry_id,
        version,
        draft.namespace,
        draft.collection,
        draft.key,
        draft.session,
        draft.agent,
        draft.content,
        content_hash(draft.content),
        attributes_text(draft.attributes),
        draft.labels,
        draft.header,
        draft.origin,
        draft.trust,
        draft.principal,
        times.created,
        times.updated,
        draft.expires,
        _size(draft),
    )
    jobs = await chunks.insert(conn, seq, entry_id, draft, now=times.now, owed=owed)
    change = Change.CREATED if version == 1 else Change.VERSION
    await deeds.note_change(conn, deed, draft, entry_id, version, change, now=times.now)
    return await _saved(conn, entry_id, version, change, jobs, pending=bool(jobs))


async def _take_by_key(conn: Connection, draft: Draft) -> tuple[int, Entry] | None:
    """The live entry with the key of a draft, which nobody else changes from now on."""
    if draft.key is None:
        return None
    place = draft.namespace, draft.collection, draft.key
    await locks.take_key(conn, *place)
    found = await find(conn, *place)
    if found is None:
        return None
    await locks.take_entries(conn, [found[1].id])
    return await find(conn, *place)


async def _update_attributes(
    conn: Connection,
    seq: int,
    entry_id: str,
    draft: Draft,
    *,
    times: Times,
    trust: Trust,
    owed: Reservation | None,
) -> tuple[Job, ...]:
    jobs = await chunks.relabel(conn, seq, entry_id, draft, now=times.now, owed=owed)
    attributes = attributes_text(draft.attributes)
    await conn.execute(
        _UPDATE, seq, attributes, draft.agent, trust, times.updated, draft.expires, _size(draft)
    )
    return jobs


async def _erase(
    conn: Connection, live_seq: int, entry_id: str, *, action: str, principal: int | None, now: int
) -> int:
    collection, namespace = await conn.fetchrow(
        "SELECT collection, namespace FROM entries WHERE seq = $1", live_seq
    )
    await deeds.record(conn, action, entry_id, collection, principal=principal, now=now, namespace=namespace)
    await chunks.remove(conn, live_seq)
    await conn.execute("DELETE FROM idempotency WHERE entry = $1", entry_id)
    await conn.execute("DELETE FROM flags WHERE entry = $1", entry_id)
    # A question that was answered with the entry may repeat it.
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
    # What is owed vectors is in a space that is enabled, and not in quarantine.
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


async def _shown(rows: AsyncIterator[Any], limit: int) -> tuple[list[Any], bool]:
    """The rows of a page, and whether they are all there are."""
    shown: list[Any] = []
    chars = 0
    async for row in rows:
        if len(shown) == limit or chars > MOST_PAGE_CHARS:
            return shown, False
        shown.append(row)
        chars += len(row["content"])
    return shown, True


def _size(draft: Draft) -> int:
    """Bytes that count against a quota."""
    return sum(len(text.encode()) for text in (draft.content, *cues_of(draft.attributes)))
