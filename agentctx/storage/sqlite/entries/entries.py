"""Entries and their versions. Every function runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from agentctx.errors import StorageCorrupt
from agentctx.sqlite.driver import Connection
from agentctx.storage.audit import Deed
from agentctx.storage.chunk_texts import content_hash
from agentctx.storage.entries import MOST_PAGE_CHARS
from agentctx.storage.faults import Faults
from agentctx.storage.ids import uuid7
from agentctx.storage.records import Change, Draft, Entry, IdempotencyKey, Job, Revision, Saved
from agentctx.storage.sqlite import checksums
from agentctx.storage.sqlite.audit import chain
from agentctx.storage.sqlite.entries import chunks, idempotency
from agentctx.storage.sqlite.entries.rows import (
    CONTENT,
    IS_EMBEDDING,
    IS_PENDING,
    SELECT_ENTRY,
    SELECT_HEAD,
    SEQ,
    VERSION,
    undamaged,
    verified,
)
from agentctx.storage.sqlite.search.filters import Condition
from agentctx.storage.sqlite.trust import provenance, quarantine
from agentctx.storage.versions import (
    Times,
    attributes_text,
    change_by_save,
    check_version,
    is_expired,
    least_trust,
    unknown_entry,
)
from agentctx.storage.words import scope_token
from agentctx.wire import Trust

MAX_ROW = 2**63 - 1


_INSERT = f"""INSERT INTO entries ({", ".join(checksums.HEAD)}, content, checksum)
    VALUES ({", ".join("?" * (len(checksums.HEAD) + 2))})"""  # noqa: S608 - constants

_LOOK_UP = """SELECT 1 FROM entries INDEXED BY {index}
    WHERE id = ? AND live = 1 AND (expires IS NULL OR expires > ?)"""
_LOOK_UPS = tuple(_LOOK_UP.format(index=index) for index in ("entries_live_id", "sqlite_autoindex_entries_1"))


def save(
    conn: Connection,
    draft: Draft,
    *,
    now: int,
    owed: bool,
    if_version: int | None = None,
    idempotency_key: IdempotencyKey | None = None,
    revision: Revision | None = None,
    deed: Deed | None = None,
) -> Saved:
    """Make the entry, or the next version of the live one with the same key.

    `deed`, if given, is what the audit trail says of it.
    """
    if idempotency_key and (earlier := _earlier_answer(conn, idempotency_key)):
        return earlier
    found = find(conn, draft.namespace, draft.collection, draft.key) if draft.key else None
    erased: tuple[str, ...] = ()
    if found and is_expired(found[1], now):
        expire(conn, found[0], found[1].id, now=now)
        erased = (found[1].id,)
        found = None
    check_version(found[1].version if found else 0, if_version)
    if found is None:
        entry_id = uuid7(now)
        draft = provenance.apply_provenance(conn, draft, entry_id, now=now)
        saved = insert_version(conn, draft, entry_id, times=Times(now, now, now), owed=owed, deed=deed)
    else:
        seq, entry = found
        draft = revision(entry, draft) if revision else draft
        saved = follow(conn, seq, entry, draft, now=now, owed=owed, deed=deed)
    if idempotency_key:
        idempotency.remember(conn, idempotency_key, saved, now)
    return replace(saved, erased=erased)


def revise(
    conn: Connection,
    entry_id: str,
    revision: Revision,
    *,
    now: int,
    owed: bool,
    if_version: int | None = None,
    deed: Deed | None = None,
) -> Saved:
    """Save what `revision` makes of the live version."""
    found = get(conn, entry_id, now=now)
    if found is None:
        raise unknown_entry(entry_id)
    seq, entry = found
    check_version(entry.version, if_version)
    return follow(conn, seq, entry, revision(entry, None), now=now, owed=owed, deed=deed)


def delete(
    conn: Connection,
    entry_id: str,
    *,
    now: int,
    if_version: int | None = None,
    principal: int | None = None,
) -> int:
    """Remove all versions with everything that depends on them, damaged or not."""
    row = conn.execute(
        "SELECT seq, version FROM entries WHERE id = ? AND live = 1 AND (expires IS NULL OR expires > ?)",
        (entry_id, now),
    ).fetchone()
    if row is None:
        _require_absent(conn, entry_id, now=now)
        raise unknown_entry(entry_id)
    check_version(row[1], if_version)
    return _erase(conn, row[0], entry_id, action=chain.FORGET, principal=principal, now=now)


def expire(conn: Connection, live_seq: int, entry_id: str, *, now: int) -> None:
    """Remove all versions of an entry whose time is over."""
    _erase(conn, live_seq, entry_id, action=chain.EXPIRE, principal=None, now=now)


def sweep(conn: Connection, *, now: int, forget_before: int, limit: int) -> list[str]:
    """Remove up to `limit` expired entries, and idempotency keys made before `forget_before`; returns ids."""
    conn.execute("DELETE FROM idempotency WHERE created < ?", (forget_before,))
    rows = conn.execute(
        "SELECT seq, id FROM entries WHERE live = 1 AND expires IS NOT NULL AND expires <= ? LIMIT ?",
        (now, limit),
    ).fetchall()
    for seq, entry_id in rows:
        expire(conn, seq, entry_id, now=now)
    return [entry_id for _, entry_id in rows]


def get(conn: Connection, entry_id: str, *, now: int, version: int | None = None) -> tuple[int, Entry] | None:
    """Row and entry: the live version, or the one named. Raises StorageCorrupt."""
    row = _live_row(conn, entry_id, now, version)
    if row is None:
        _require_absent(conn, entry_id, now=now, version=version)
        return None
    if row[1] != entry_id:
        raise _index_damaged(entry_id)
    return row[0], verified(row)


def _require_absent(conn: Connection, entry_id: str, *, now: int, version: int | None = None) -> None:
    """Raise StorageCorrupt if one of the two indexes of ids knows a live entry that the other misses."""
    if version is None and any(conn.execute(sql, (entry_id, now)).fetchone() for sql in _LOOK_UPS):
        raise _index_damaged(entry_id)


def _index_damaged(entry_id: str) -> StorageCorrupt:
    return StorageCorrupt(
        f"The id index is damaged at {entry_id!r}.",
        hint="Run `agentctx doctor --fix`, which rebuilds the index.",
    )


def _live_row(conn: Connection, entry_id: str, now: int, version: int | None = None) -> Any:
    which = "e.live = 1" if version is None else "e.version = ?"
    parameters = (entry_id, now) if version is None else (entry_id, now, version)
    return conn.execute(
        f"{SELECT_ENTRY} WHERE e.id = ? AND (e.expires IS NULL OR e.expires > ?) AND {which}", parameters
    ).fetchone()


def namespace_of(conn: Connection, entry_id: str, *, now: int) -> str | None:
    """Of the live version, damaged or not; None where there is none."""
    row = conn.execute(
        "SELECT namespace FROM entries WHERE id = ? AND live = 1 AND (expires IS NULL OR expires > ?)",
        (entry_id, now),
    ).fetchone()
    if row is None:
        _require_absent(conn, entry_id, now=now)
        return None
    return str(row[0])


def find(conn: Connection, namespace: str, collection: str, key: str) -> tuple[int, Entry] | None:
    """Row and live entry with this key, expired or not."""
    row = conn.execute(
        f"{SELECT_ENTRY} WHERE e.namespace = ? AND e.collection = ? AND e.key = ? AND e.live = 1",
        (namespace, collection, key),
    ).fetchone()
    if row is None:
        return None
    seq, entry = row[0], verified(row)
    if (entry.namespace, entry.collection, entry.key) != (namespace, collection, key):
        raise _index_damaged(entry.id)
    return seq, entry


def page(
    conn: Connection,
    condition: Condition,
    *,
    limit: int,
    before: int | None,
    with_content: bool = True,
    faults: Faults,
) -> tuple[list[Entry], int | None]:
    """Up to `limit` entries, newest first, below the row `before`; and where the next page begins.

    A page ends early after `MOST_PAGE_CHARS` of contents. Damaged entries are left out.
    """
    select = SELECT_ENTRY if with_content else SELECT_HEAD
    rows = conn.execute(
        f"{select} WHERE {condition.sql} AND e.seq < ? ORDER BY e.seq DESC LIMIT ?",
        (*condition.parameters, MAX_ROW if before is None else before, limit + 1),
    )
    shown, is_last = _shown(rows, limit)
    return undamaged(shown, faults, with_content=with_content), None if is_last else shown[-1][SEQ]


def _shown(rows: Iterable[Any], limit: int) -> tuple[list[Any], bool]:
    """The rows of a page, and whether they are all there are."""
    shown: list[Any] = []
    chars = 0
    for row in rows:
        if len(shown) == limit or chars > MOST_PAGE_CHARS:
            return shown, False
        shown.append(row)
        chars += len(str(row[CONTENT]))
    return shown, True


def history(
    conn: Connection, entry_id: str, *, now: int, limit: int, before: int | None, faults: Faults
) -> tuple[list[Entry], int | None]:
    """Up to `limit` versions, newest first, older than `before`; and before which the next page begins.

    None when the live one has expired. A page ends early as `page` does, and has no damaged ones either.
    """
    if _live_row(conn, entry_id, now) is None:
        return [], None
    rows = conn.execute(
        f"{SELECT_ENTRY} WHERE e.id = ? AND e.version < ? ORDER BY e.version DESC LIMIT ?",
        (entry_id, MAX_ROW if before is None else before, limit + 1),
    )
    shown, is_last = _shown(rows, limit)
    return undamaged(shown, faults), None if is_last else shown[-1][VERSION]


def follow(
    conn: Connection,
    seq: int,
    entry: Entry,
    draft: Draft,
    *,
    now: int,
    owed: bool,
    updated: int | None = None,
    deed: Deed | None = None,
) -> Saved:
    """Make of a live row what the draft says: another version, other attributes, or nothing.

    `updated` must be later than that of `entry`; it defaults to `entry.next_update(now)`.
    """
    times = Times(entry.created, entry.next_update(now) if updated is None else updated, now)
    draft = provenance.apply_provenance(conn, draft, entry.id, now=now)
    trust = least_trust(entry.trust, draft.trust)
    change = change_by_save(entry, draft, trust)
    if change is Change.VERSION:
        chunks.remove(conn, seq)
        conn.execute("UPDATE entries SET live = 0 WHERE seq = ?", (seq,))
        checksums.seal(conn, seq)
        version = entry.version + 1
        draft = replace(draft, trust=trust)
        return insert_version(conn, draft, entry.id, version, times=times, owed=owed, deed=deed)
    if change is Change.NONE:
        return _saved(conn, entry.id, entry.version, change, (), pending=entry.pending)
    jobs = _update_attributes(conn, seq, draft, times=times, trust=trust, owed=owed)
    chain.note_change(conn, deed, draft, entry.id, entry.version, Change.ATTRIBUTES, now=now)
    return _saved(conn, entry.id, entry.version, Change.ATTRIBUTES, jobs, pending=entry.pending or bool(jobs))


def insert_version(
    conn: Connection,
    draft: Draft,
    entry_id: str,
    version: int = 1,
    *,
    times: Times,
    owed: bool,
    deed: Deed | None = None,
) -> Saved:
    """Write a live version of a draft as `provenance.apply_provenance` returns it."""
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
    seq = conn.execute(_INSERT, (*head, draft.content, checksums.of_head(head))).lastrowid
    assert seq is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
    jobs = chunks.insert(conn, seq, entry_id, draft, scope, now=times.now, owed=owed)
    change = Change.CREATED if version == 1 else Change.VERSION
    chain.note_change(conn, deed, draft, entry_id, version, change, now=times.now)
    return _saved(conn, entry_id, version, change, jobs, pending=bool(jobs))


def _update_attributes(
    conn: Connection, seq: int, draft: Draft, *, times: Times, trust: Trust, owed: bool
) -> tuple[Job, ...]:
    jobs = chunks.relabel(conn, seq, draft, now=times.now, owed=owed)
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
    chain.record(conn, action, entry_id, collection, principal=principal, now=now, namespace=namespace)
    chunks.remove(conn, live_seq)
    conn.execute("DELETE FROM idempotency WHERE entry = ?", (entry_id,))
    conn.execute("DELETE FROM flags WHERE entry = ?", (entry_id,))
    # A question that was answered with the entry may repeat it.
    conn.execute(
        "UPDATE injections SET question = NULL WHERE question IS NOT NULL AND instr(candidates, ?) > 0",
        (entry_id,),
    )
    return int(conn.execute("DELETE FROM entries WHERE id = ?", (entry_id,)).rowcount)


def _saved(
    conn: Connection, entry_id: str, version: int, change: Change, jobs: tuple[Job, ...], *, pending: bool
) -> Saved:
    embedded = bool(conn.execute(f"SELECT {IS_EMBEDDING}").fetchone()[0])
    return Saved(
        id=entry_id,
        version=version,
        change=change,
        jobs=jobs,
        pending=pending,
        embedded=embedded,
        quarantined=quarantine.is_held(conn, entry_id),
    )


def _scope(draft: Draft) -> str:
    tokens = (
        scope_token("n", draft.namespace),
        scope_token("c", draft.collection),
        scope_token("s", draft.session),
    )
    return " ".join(tokens)


def _earlier_answer(conn: Connection, key: IdempotencyKey) -> Saved | None:
    found = idempotency.earlier(conn, key)
    if found is None:
        return None
    entry_id, version, change = found
    pending = conn.execute(
        f"SELECT {IS_PENDING} FROM entries e WHERE e.id = ? AND e.live = 1",  # noqa: S608 - constant
        (entry_id,),
    ).fetchone()
    return _saved(conn, entry_id, version, change, (), pending=bool(pending and pending[0]))
