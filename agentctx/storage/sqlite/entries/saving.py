"""Save, edit and remove entries. Every function runs inside the caller's transaction."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from agentctx.sqlite.driver import Connection
from agentctx.storage.audit import EXPIRE, FORGET, AuditedChange, Event
from agentctx.storage.chunk_texts import content_hash
from agentctx.storage.ids import first_id, new_id
from agentctx.storage.records import (
    FORGOTTEN_DIGEST,
    Change,
    Draft,
    Entry,
    IdempotencyKey,
    Job,
    Revision,
    Saved,
)
from agentctx.storage.sqlite import checksums
from agentctx.storage.sqlite.audit import chain
from agentctx.storage.sqlite.entries import chunks, lookup
from agentctx.storage.sqlite.entries.rows import (
    IS_EMBEDDING,
    IS_PENDING,
)
from agentctx.storage.sqlite.trust import provenance
from agentctx.storage.versions import (
    Times,
    attributes_text,
    change_by_save,
    check_repeated,
    check_version,
    is_expired,
    least_trust,
    refuse_taken_key,
    unknown_entry,
)
from agentctx.storage.words import scope_token
from agentctx.wire import Trust

_INSERT = f"""INSERT INTO entries ({", ".join(checksums.HEAD)}, content, checksum)
    VALUES ({", ".join("?" * (len(checksums.HEAD) + 2))})"""  # noqa: S608 - constants
_STATE = f"SELECT {IS_EMBEDDING}, EXISTS (SELECT 1 FROM quarantine WHERE entry = ?)"  # noqa: S608 - constants


def save(
    conn: Connection,
    draft: Draft,
    *,
    now: int,
    embed: bool,
    if_version: int | None = None,
    idempotency_key: IdempotencyKey | None = None,
    revision: Revision | None = None,
    audited: AuditedChange | None = None,
) -> Saved:
    """Create the entry, or the next version of the live one with the same key.

    `audited`, if given, is recorded in the audit trail.
    """
    entry_id = new_id(now, draft.namespace)
    if idempotency_key and not claim_key(conn, idempotency_key, entry_id, now):
        return _earlier_answer(conn, idempotency_key)
    found = lookup.find(conn, draft.namespace, draft.collection, draft.key) if draft.key else None
    erased: tuple[str, ...] = ()
    if found and is_expired(found[1], now):
        expire(conn, found[0], found[1].id, now=now)
        erased = (found[1].id,)
        found = None
    check_version(found[1].version if found else 0, if_version)
    if found is None:
        draft = provenance.apply_provenance(conn, draft, entry_id, now=now, is_new=True)
        saved = insert_version(
            conn,
            draft,
            entry_id,
            times=Times(now, now, now),
            embed=embed,
            audited=audited,
        )
    else:
        seq, entry = found
        draft = revision(entry, draft) if revision else draft
        saved = follow(conn, seq, entry, draft, now=now, embed=embed, audited=audited)
        if idempotency_key:
            conn.execute(
                "UPDATE idempotency SET entry = ?, version = ?, change = ? WHERE principal = ? AND key = ?",
                (saved.id, saved.version, saved.change, idempotency_key.principal, idempotency_key.key),
            )
    return replace(saved, erased=erased) if erased else saved


def revise(
    conn: Connection,
    entry_id: str,
    revision: Revision,
    *,
    now: int,
    embed: bool,
    if_version: int | None = None,
    audited: AuditedChange | None = None,
) -> Saved:
    """Save the result of applying `revision` to the live version."""
    found = lookup.get(conn, entry_id, now=now)
    if found is None:
        raise unknown_entry(entry_id)
    seq, entry = found
    check_version(entry.version, if_version)
    return follow(
        conn,
        seq,
        entry,
        revision(entry, None),
        now=now,
        embed=embed,
        audited=audited,
    )


def delete(
    conn: Connection,
    entry_id: str,
    *,
    now: int,
    if_version: int | None = None,
    principal: int | None = None,
) -> int:
    """Remove all versions of an entry and everything that depends on them, even if damaged."""
    row = conn.execute(
        "SELECT seq, version FROM entries WHERE id = ? AND live = 1 AND (expires IS NULL OR expires > ?)",
        (entry_id, now),
    ).fetchone()
    if row is None:
        lookup.require_absent(conn, entry_id, now=now)
        raise unknown_entry(entry_id)
    check_version(row[1], if_version)
    return _erase(conn, row[0], entry_id, action=FORGET, principal=principal, now=now)


def expire(conn: Connection, live_seq: int, entry_id: str, *, now: int) -> None:
    """Remove all versions of an expired entry."""
    _erase(conn, live_seq, entry_id, action=EXPIRE, principal=None, now=now)


def sweep(conn: Connection, *, now: int, forget_before: int, limit: int) -> list[str]:
    """Remove up to `limit` expired entries, and old idempotency keys (`forget_before`); return the ids."""
    _forget_keys(conn, forget_before, now)
    rows = conn.execute(
        "SELECT seq, id FROM entries WHERE live = 1 AND expires IS NOT NULL AND expires <= ? LIMIT ?",
        (now, limit),
    ).fetchall()
    for seq, entry_id in rows:
        expire(conn, seq, entry_id, now=now)
    return [entry_id for _, entry_id in rows]


def follow(
    conn: Connection,
    seq: int,
    entry: Entry,
    draft: Draft,
    *,
    now: int,
    embed: bool,
    updated: int | None = None,
    audited: AuditedChange | None = None,
) -> Saved:
    """Save a draft over a live row: as another version, as other attributes, or not at all if equal.

    `updated` must be later than that of `entry`; it defaults to `entry.next_update(now)`.
    """
    times = Times(entry.created, entry.next_update(now) if updated is None else updated, now)
    draft = provenance.apply_provenance(conn, draft, entry.id, now=now)
    trust = least_trust(entry.trust, draft.trust)
    change = change_by_save(entry, draft, trust)
    if change is Change.VERSION:
        if draft.key is not None and draft.key != entry.key:
            refuse_taken_key(lookup.find(conn, draft.namespace, draft.collection, draft.key))
        chunks.remove(conn, seq)
        conn.execute("UPDATE entries SET live = 0 WHERE seq = ?", (seq,))
        checksums.seal(conn, seq)
        version = entry.version + 1
        draft = replace(draft, trust=trust)
        return insert_version(
            conn,
            draft,
            entry.id,
            version,
            times=times,
            embed=embed,
            audited=audited,
        )
    if change is Change.NONE:
        return _saved(conn, entry.id, entry.version, change, (), pending=entry.pending)
    jobs = _update_attributes(conn, seq, draft, times=times, trust=trust, embed=embed)
    chain.note_change(conn, audited, draft, entry.id, entry.version, Change.ATTRIBUTES, now=now)
    return _saved(conn, entry.id, entry.version, Change.ATTRIBUTES, jobs, pending=entry.pending or bool(jobs))


def insert_version(
    conn: Connection,
    draft: Draft,
    entry_id: str,
    version: int = 1,
    *,
    times: Times,
    embed: bool,
    audited: AuditedChange | None = None,
) -> Saved:
    """Write a live version of a draft returned by `provenance.apply_provenance`."""
    scope = _scope(draft)
    head = (
        entry_id,
        version,
        1,
        draft.namespace,
        draft.collection,
        draft.key,
        draft.session,
        draft.agent,
        content_hash(draft.content),
        attributes_text(draft.attributes),
        draft.labels,
        draft.header,
        scope,
        draft.origin,
        draft.trust,
        draft.principal,
        times.created,
        times.updated,
        draft.expires,
    )
    seq = conn.execute(_INSERT, (*head, draft.content, checksums.head_checksum(head))).lastrowid
    assert seq is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
    jobs = chunks.insert(conn, seq, entry_id, draft, scope, now=times.now, embed=embed)
    change = Change.CREATED if version == 1 else Change.VERSION
    chain.note_change(conn, audited, draft, entry_id, version, change, now=times.now)
    return _saved(conn, entry_id, version, change, jobs, pending=bool(jobs))


def _update_attributes(
    conn: Connection, seq: int, draft: Draft, *, times: Times, trust: Trust, embed: bool
) -> tuple[Job, ...]:
    jobs = chunks.relabel(conn, seq, draft, now=times.now, embed=embed)
    conn.execute(
        """UPDATE entries SET attributes = ?, agent = ?, trust = ?, updated = ?, expires = ? WHERE seq = ?""",
        (attributes_text(draft.attributes), draft.agent, trust, times.updated, draft.expires, seq),
    )
    checksums.seal(conn, seq)
    return jobs


def _erase(
    conn: Connection, live_seq: int, entry_id: str, *, action: str, principal: int | None, now: int
) -> int:
    collection, namespace = conn.execute(
        "SELECT collection, namespace FROM entries WHERE seq = ?", (live_seq,)
    ).fetchone()
    detail = {"collection": collection}
    erasure = Event(kind=action, principal=principal, namespace=namespace, subject=entry_id, detail=detail)
    chain.record(conn, erasure, now=now)
    chunks.remove(conn, live_seq)
    conn.execute("UPDATE idempotency SET digest = ? WHERE entry = ?", (FORGOTTEN_DIGEST, entry_id))
    conn.execute("DELETE FROM flags WHERE entry = ?", (entry_id,))
    # A stored question that was answered with the entry may repeat its text.
    conn.execute(
        "UPDATE injections SET question = NULL WHERE question IS NOT NULL AND instr(candidates, ?) > 0",
        (entry_id,),
    )
    return int(conn.execute("DELETE FROM entries WHERE id = ?", (entry_id,)).rowcount)


def _saved(
    conn: Connection, entry_id: str, version: int, change: Change, jobs: tuple[Job, ...], *, pending: bool
) -> Saved:
    # An entry with jobs is in an enabled space, and not in quarantine.
    embedded, is_held = (1, 0) if jobs else conn.execute(_STATE, (entry_id,)).fetchone()
    return Saved(
        id=entry_id,
        version=version,
        change=change,
        jobs=jobs,
        pending=pending,
        embedded=bool(embedded),
        quarantined=bool(is_held),
    )


def _scope(draft: Draft) -> str:
    return f"{_shared_scope(draft.namespace, draft.collection)} {scope_token('s', draft.session)}"


@lru_cache(maxsize=1_024)
def _shared_scope(namespace: str, collection: str) -> str:
    return f"{scope_token('n', namespace)} {scope_token('c', collection)}"


def claim_key(conn: Connection, key: IdempotencyKey, entry_id: str, now: int) -> bool:
    """Record in advance that the save creates this entry; return False if the key was used before."""
    claimed = conn.execute(
        """INSERT INTO idempotency (principal, key, digest, entry, version, change, created)
           VALUES (?, ?, ?, ?, 1, 'created', ?) ON CONFLICT DO NOTHING""",
        (key.principal, key.key, key.digest, entry_id, now),
    )
    return claimed.rowcount > 0


def _forget_keys(conn: Connection, before: int, now: int) -> None:
    """Delete the keys from before a time. The ids of their entries are older, but for some imported ones."""
    conn.execute("DELETE FROM idempotency WHERE entry < ? AND created < ?", (first_id(before), before))
    conn.execute("DELETE FROM idempotency WHERE entry >= ? AND created < ?", (first_id(now + 1), before))


def _earlier_answer(conn: Connection, key: IdempotencyKey) -> Saved:
    """Return the answer to the save that was made with this key.

    Raises like `check_repeated`.
    """
    digest, entry_id, version, change = conn.execute(
        "SELECT digest, entry, version, change FROM idempotency WHERE principal = ? AND key = ?",
        (key.principal, key.key),
    ).fetchone()
    check_repeated(key, digest)
    pending = conn.execute(
        f"SELECT {IS_PENDING} FROM entries e WHERE e.id = ? AND e.live = 1",  # noqa: S608 - constant
        (entry_id,),
    ).fetchone()
    return _saved(conn, entry_id, version, Change(change), (), pending=bool(pending and pending[0]))
