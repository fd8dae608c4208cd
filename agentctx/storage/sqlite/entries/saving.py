"""Save, edit and remove entries. Every function runs inside the caller's transaction."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from agentctx.storage.audit import EXPIRE, FORGET, Event
from agentctx.storage.chunk_texts import content_hash
from agentctx.storage.file.driver import Connection
from agentctx.storage.ids import first_id, new_id
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
from agentctx.storage.sqlite import checksums
from agentctx.storage.sqlite.audit import chain
from agentctx.storage.sqlite.entries import chunks, lookup
from agentctx.storage.sqlite.entries.rows import IS_EMBEDDING, IS_PENDING, texts_of_version
from agentctx.storage.sqlite.trust import provenance
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
from agentctx.storage.words import scope_token

_INSERT = f"""INSERT INTO entries ({", ".join(checksums.HEAD)}, content, checksum)
    VALUES ({", ".join("?" * (len(checksums.HEAD) + 2))})"""  # noqa: S608 - constants
_FORGET_VERSIONS = """DELETE FROM entries WHERE seq IN (
    SELECT seq FROM entries WHERE id = :entry
    ORDER BY version IN (1, :live) DESC, version = (
      SELECT min(version) FROM entries WHERE id = :entry AND content_hash = (
        SELECT content_hash FROM entries WHERE id = :entry AND version = :live)) DESC, version DESC
    LIMIT -1 OFFSET :kept)"""
"""Keeps the first version, the one that brought the text, and the newest."""
_STATE = f"SELECT {IS_EMBEDDING}, EXISTS (SELECT 1 FROM quarantine WHERE entry = ?)"  # noqa: S608 - constants


def save(
    conn: Connection,
    draft: Draft,
    options: WriteOptions,
    *,
    if_version: int | None = None,
    revision: Revision | None = None,
) -> SaveOutcome:
    """Create the entry, or the next version of the live one with the same key."""
    now, key = options.now, options.idempotency_key
    entry_id = new_id(now, draft.namespace)
    if key and not claim_key(conn, key, entry_id, now):
        return _earlier_answer(conn, key)
    found = lookup.find(conn, draft.namespace, draft.collection, draft.key) if draft.key else None
    erased: tuple[str, ...] = ()
    if found and is_expired(found[1], now):
        expire(conn, found[0], found[1].id, now=now)
        erased = (found[1].id,)
        found = None
    check_version(found[1].version if found else 0, if_version)
    if found is None:
        draft = provenance.apply_provenance(conn, draft, entry_id, now=now, is_new=True)
        saved = insert_version(conn, draft, entry_id, options, times=Times(now, now, now))
    else:
        saved = follow(conn, *found, revision(found[1], draft) if revision else draft, options)
        if key:
            conn.execute(
                "UPDATE idempotency SET entry = ?, version = ?, change = ? WHERE principal = ? AND key = ?",
                (saved.id, saved.version, saved.change, key.principal, key.key),
            )
    return replace(saved, erased=erased) if erased else saved


def revise(
    conn: Connection,
    entry_id: str,
    revision: Revision,
    options: WriteOptions,
    *,
    if_version: int | None = None,
) -> SaveOutcome:
    """Save the result of applying `revision` to the live version."""
    found = lookup.get(conn, entry_id, now=options.now)
    if found is None:
        raise unknown_entry(entry_id)
    check_version(found[1].version, if_version)
    return follow(conn, *found, revision(found[1], None), options)


def delete(
    conn: Connection,
    entry_id: str,
    *,
    now: int,
    if_version: int | None = None,
    principal: int | None = None,
    is_audited: bool = True,
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
    action = FORGET if is_audited else None
    return _erase(conn, row[0], entry_id, action=action, principal=principal, now=now)


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
    options: WriteOptions,
    *,
    updated: int | None = None,
) -> SaveOutcome:
    """Save a draft over a live row: as another version, in place, or not at all if equal.

    `updated` must be later than that of `entry`; it defaults to `entry.next_update(now)`.
    """
    now, embed = options.now, options.embed
    times = Times(entry.created, entry.next_update(now) if updated is None else updated, now)
    draft = provenance.apply_provenance(conn, draft, entry.id, now=now)
    trust = least_trust(entry.trust, draft.trust)
    change = change_by_save(entry, draft, trust)
    draft = replace(draft, trust=trust)
    if change is Change.NONE:
        return _saved(conn, entry.id, entry.version, change, (), pending=entry.pending)
    if change is Change.IN_PLACE:
        version, jobs = entry.version, _update_in_place(conn, seq, entry, draft, now=now, embed=embed)
    else:
        if draft.key is not None and draft.key != entry.key:
            refuse_taken_key(lookup.find(conn, draft.namespace, draft.collection, draft.key))
        version = entry.version + 1
        jobs = _add_version(conn, seq, entry, draft, version, times=times, embed=embed)
        if version > options.max_versions:
            kept = {"entry": entry.id, "live": version, "kept": options.max_versions}
            conn.execute(_FORGET_VERSIONS, kept)
    chain.note_change(conn, options.audited, draft, entry.id, version, change, now=now)
    is_carried = change is not Change.VERSION and bool(draft.spans)
    pending = bool(jobs) or (is_carried and entry.pending)
    return _saved(conn, entry.id, version, change, jobs, pending=pending)


def insert_version(
    conn: Connection,
    draft: Draft,
    entry_id: str,
    options: WriteOptions,
    version: int = 1,
    *,
    times: Times,
) -> SaveOutcome:
    """Write a live version of a draft returned by `provenance.apply_provenance`."""
    seq = _insert_row(conn, draft, entry_id, version, times)
    jobs = chunks.insert(conn, seq, entry_id, draft, _scope(draft), now=times.now, embed=options.embed)
    change = Change.CREATED if version == 1 else Change.VERSION
    chain.note_change(conn, options.audited, draft, entry_id, version, change, now=times.now)
    return _saved(conn, entry_id, version, change, jobs, pending=bool(jobs))


def _insert_row(conn: Connection, draft: Draft, entry_id: str, version: int, times: Times) -> int:
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
        _scope(draft),
        draft.origin,
        draft.trust,
        draft.principal,
        times.created,
        times.updated,
        draft.expires,
        draft.ttl,
    )
    seq = conn.execute(_INSERT, (*head, draft.content, checksums.head_checksum(head))).lastrowid
    assert seq is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
    return seq


def _add_version(
    conn: Connection, before: int, entry: Entry, draft: Draft, version: int, *, times: Times, embed: bool
) -> tuple[Job, ...]:
    """Write the next version. With the same content it gets the chunks of the row `before`."""
    old = texts_of_version(conn, before)
    is_carried = bool(draft.spans) and draft.content == entry.content
    if not is_carried:
        chunks.remove(conn, before)
    conn.execute("UPDATE entries SET live = 0 WHERE seq = ?", (before,))
    checksums.seal(conn, before)
    seq = _insert_row(conn, draft, entry.id, version, times)
    what = (entry.id, draft, _scope(draft))
    if is_carried:
        return chunks.carry(conn, before, seq, old, *what, now=times.now, embed=embed)
    return chunks.insert(conn, seq, *what, now=times.now, embed=embed)


def _update_in_place(
    conn: Connection, seq: int, entry: Entry, draft: Draft, *, now: int, embed: bool
) -> tuple[Job, ...]:
    old = texts_of_version(conn, seq)
    if not draft.spans:
        chunks.remove(conn, seq)
    if not draft.in_place:  # an equal save with a new end: its agent is not the entry's
        draft = replace(draft, labels=old.labels, header=old.header)
    conn.execute(
        """UPDATE entries SET attributes = ?, labels = ?, header = ?, trust = ?, expires = ?, ttl = ?
           WHERE seq = ?""",
        (
            attributes_text(draft.attributes),
            draft.labels,
            draft.header,
            draft.trust,
            draft.expires,
            draft.ttl,
            seq,
        ),
    )
    checksums.seal(conn, seq)
    return chunks.carry(conn, seq, seq, old, entry.id, draft, old.scope, now=now, embed=embed)


def _erase(
    conn: Connection, live_seq: int, entry_id: str, *, action: str | None, principal: int | None, now: int
) -> int:
    """Remove the entry. Without an action, the caller records it in the audit trail."""
    collection, namespace = conn.execute(
        "SELECT collection, namespace FROM entries WHERE seq = ?", (live_seq,)
    ).fetchone()
    detail = {"collection": collection}
    if action is None:
        conn.execute("INSERT OR IGNORE INTO forgotten (entry, at) VALUES (?, ?)", (entry_id, now))
    else:
        erasure = Event(
            kind=action, principal=principal, namespace=namespace, subject=entry_id, detail=detail
        )
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
) -> SaveOutcome:
    # An entry with jobs is in an enabled space, and not in quarantine.
    embedded, is_held = (1, 0) if jobs else conn.execute(_STATE, (entry_id,)).fetchone()
    return SaveOutcome(
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


def _earlier_answer(conn: Connection, key: IdempotencyKey) -> SaveOutcome:
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
