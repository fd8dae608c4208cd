"""Executes the statements of saving and forgetting entries, inside the caller's transaction."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from agentctx.storage import forgetting, saving
from agentctx.storage.file.driver import Connection
from agentctx.storage.ids import first_id
from agentctx.storage.records import FORGOTTEN_DIGEST, Change, Draft, Job, SaveOutcome
from agentctx.storage.sqlite import checksums, sql
from agentctx.storage.sqlite.audit import chain
from agentctx.storage.sqlite.entries import chunks, lookup
from agentctx.storage.sqlite.entries.rows import texts_of_version
from agentctx.storage.versions import attributes_text
from agentctx.storage.words import scope_token

_INSERT = f"""INSERT INTO entries ({", ".join(checksums.HEAD)}, content, checksum)
    VALUES ({", ".join("?" * (len(checksums.HEAD) + 2))})"""  # noqa: S608 - constants
_UPDATE = """UPDATE entries SET attributes = ?, labels = ?, header = ?, trust = ?, expires = ?, ttl = ?
    WHERE seq = ?"""
_IS_MARKED = """SELECT EXISTS (SELECT 1 FROM flags WHERE entry = ?1)
    OR EXISTS (SELECT 1 FROM quarantine WHERE entry = ?1)"""
_ROW = "SELECT seq, id, version, namespace, collection FROM entries WHERE live = 1"


def find_live(conn: Connection, wanted: saving.FindLive) -> saving.FoundEntry:
    by = wanted.by
    if request := wanted.request:
        row = conn.execute(
            "SELECT digest, entry, version, change FROM idempotency WHERE principal = ? AND key = ?",
            (request.principal, request.key),
        ).fetchone()
        if row is not None:
            return None, saving.EarlierSave(*row)
    if by is None:
        return None, None
    found = lookup.get(conn, by, now=0) if isinstance(by, str) else lookup.find(conn, *by)
    if found is None:
        return None, None
    (is_marked,) = conn.execute(_IS_MARKED, (found[1].id,)).fetchone()
    return saving.LiveEntry(*found, bool(is_marked)), None


def find_row(conn: Connection, wanted: forgetting.FindRow) -> forgetting.LiveRow | None:
    row = conn.execute(
        f"{_ROW} AND id = ? AND (expires IS NULL OR expires > ?)", (wanted.entry_id, wanted.now)
    ).fetchone()
    if row is None:
        lookup.require_absent(conn, wanted.entry_id, now=wanted.now)
        return None
    return forgetting.LiveRow(*row)


def find_expired(conn: Connection, wanted: forgetting.FindExpired) -> list[forgetting.LiveRow]:
    rows = conn.execute(
        f"{_ROW} AND expires IS NOT NULL AND expires <= ? LIMIT ?", (wanted.now, wanted.limit)
    )
    return [forgetting.LiveRow(*row) for row in rows.fetchall()]


def insert_version(conn: Connection, new: saving.InsertVersion) -> SaveOutcome:
    command, draft, entry_id, before = new.command, new.draft, new.entry_id, new.before
    if before is not None:
        old = texts_of_version(conn, before)
        if not new.is_carried:
            chunks.remove(conn, before)
        conn.execute("UPDATE entries SET live = 0 WHERE seq = ?", (before,))
        checksums.seal(conn, before)
    scope = _scope(draft)
    seq = _insert_row(conn, new, scope)
    what, now, embed = (entry_id, draft, scope), command.now, command.embed
    if before is not None and new.is_carried:
        jobs = chunks.carry(conn, before, seq, old, *what, now=now, embed=embed)
    else:
        jobs = chunks.insert(conn, seq, *what, now=now, embed=embed)
    chain.note_change(conn, command.audited, draft, entry_id, new.version, new.change, now=now)
    state = saving.WITH_JOBS if jobs else sql.follow(conn, saving.state_of(entry_id))
    saved = state.outcome(entry_id, new.version, new.change, jobs)
    if command.idempotency:
        sql.execute(conn, saving.remember(command.idempotency, saved, now))
    return saved


def _insert_row(conn: Connection, new: saving.InsertVersion, scope: str) -> int:
    head = new.row(checksums.HEAD, live=1, scope=scope)
    seq = conn.execute(_INSERT, (*head, new.draft.content, checksums.head_checksum(head))).lastrowid
    assert seq is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
    return seq


def change_in_place(conn: Connection, wanted: saving.ChangeInPlace) -> tuple[Job, ...]:
    command, draft, (seq, entry, _) = wanted.command, wanted.draft, wanted.live
    old = texts_of_version(conn, seq)
    if not draft.spans:
        chunks.remove(conn, seq)
    if not draft.in_place:
        draft = replace(draft, labels=old.labels, header=old.header)
    changed = (draft.labels, draft.header, draft.trust, draft.expires, draft.ttl)
    conn.execute(_UPDATE, (attributes_text(draft.attributes), *changed, seq))
    checksums.seal(conn, seq)
    jobs = chunks.carry(conn, seq, seq, old, entry.id, draft, old.scope, now=command.now, embed=command.embed)
    what = (draft, entry.id, entry.version, Change.IN_PLACE)
    chain.note_change(conn, command.audited, *what, now=command.now)
    return jobs


def forget_requests(conn: Connection, wanted: forgetting.ForgetRequests) -> None:
    before, now = wanted.before, wanted.now
    # The ids of their entries are older, but for some imported ones.
    conn.execute("DELETE FROM idempotency WHERE entry < ? AND created < ?", (first_id(before), before))
    conn.execute("DELETE FROM idempotency WHERE entry >= ? AND created < ?", (first_id(now + 1), before))


def erase(conn: Connection, wanted: forgetting.Erase) -> int:
    seq, entry_id, *_ = wanted.row
    if wanted.event is None:
        conn.execute("INSERT OR IGNORE INTO forgotten (entry, at) VALUES (?, ?)", (entry_id, wanted.now))
    else:
        chain.record(conn, wanted.event, now=wanted.now)
    chunks.remove(conn, seq)
    conn.execute("UPDATE idempotency SET digest = ? WHERE entry = ?", (FORGOTTEN_DIGEST, entry_id))
    conn.execute("DELETE FROM flags WHERE entry = ?", (entry_id,))
    conn.execute(
        "UPDATE injections SET question = NULL WHERE question IS NOT NULL AND instr(candidates, ?) > 0",
        (entry_id,),
    )
    return int(conn.execute("DELETE FROM entries WHERE id = ?", (entry_id,)).rowcount)


def _scope(draft: Draft) -> str:
    return f"{_shared_scope(draft.namespace, draft.collection)} {scope_token('s', draft.session)}"


@lru_cache(maxsize=1_024)
def _shared_scope(namespace: str, collection: str) -> str:
    return f"{scope_token('n', namespace)} {scope_token('c', collection)}"
