"""New versions, written in one statement: rows, chunks, words, jobs and audit rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from agentctx.storage.audit import AuditedChange, change_of_entry
from agentctx.storage.chunk_texts import content_hash, cues_of
from agentctx.storage.records import Change, Draft, IdempotencyKey, SaveOutcome
from agentctx.storage.versions import Times, WriteOptions, attributes_text
from agentctx_postgresql.audit import audit_events
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks, idempotency
from agentctx_postgresql.entries.chunks import NewChunks
from agentctx_postgresql.entries.rows import IS_EMBEDDING
from agentctx_postgresql.erasures import record_erasure

_COLUMNS: Final = {
    "id": "text",
    "version": "int",
    "live": "boolean",
    "namespace": "text",
    "collection": "text",
    "key": "text",
    "session": "text",
    "agent": "text",
    "content": "text",
    "content_hash": "bytea",
    "attributes": "text",
    "labels": "text",
    "header": "text",
    "origin": "text",
    "trust": "text",
    "principal": "bigint",
    "created": "bigint",
    "updated": "bigint",
    "expires": "bigint",
    "ttl": "bigint",
    "size": "bigint",
}
_FIRST: Final = chunks.PARAMETERS + 1
_NAMES: Final = ", ".join(_COLUMNS)
_VALUES: Final = ", ".join("attributes::json" if name == "attributes" else name for name in _COLUMNS)
_GIVEN: Final = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_COLUMNS.values(), _FIRST))
_EVENTS: Final = _FIRST + len(_COLUMNS)
_ANSWERS: Final = _EVENTS + audit_events.PARAMETERS
_INSERT: Final = f"""
WITH version AS (
  INSERT INTO entries ({_NAMES})
  SELECT {_VALUES} FROM unnest({_GIVEN}) WITH ORDINALITY AS g ({_NAMES}, place) ORDER BY place
  RETURNING seq, id, namespace, live),
{chunks.INSERTING}, {idempotency.remembering(_ANSWERS)}
SELECT version.id, {IS_EMBEDDING}, EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = version.id),
  job.id, job.chunk, job.space, job.hash, job.ordinal,
  (SELECT confirm_save({chunks.ENABLED}, {audit_events.recording(_EVENTS)})), {audit_events.TRANSACTION}
FROM version LEFT JOIN {chunks.CREATED_JOBS} ON job.entry = version.seq ORDER BY job.id"""  # noqa: S608 - constants
_FIND: Final = f"""
SELECT wanted.id, {IS_EMBEDDING}, EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = wanted.id),
  job.id, job.chunk, job.space, job.hash, chunk.ordinal, e.seq IS NOT NULL AS is_there
FROM unnest($1::text[]) AS wanted (id) LEFT JOIN entries e USING (id)
  LEFT JOIN (chunks chunk JOIN jobs job ON job.chunk = chunk.id) ON chunk.entry = e.seq ORDER BY job.id"""  # noqa: S608 - constants


class NewVersion(NamedTuple):
    """A version to write; `audited` and `idempotency_key` as in `WriteOptions`. Old ones have no chunks."""

    draft: Draft
    entry_id: str
    version: int
    times: Times
    chunks: NewChunks
    change: Change = Change.CREATED
    audited: AuditedChange | None = None
    idempotency_key: IdempotencyKey | None = None
    live: bool = True


def build(
    draft: Draft,
    entry_id: str,
    version: int,
    *,
    times: Times,
    options: WriteOptions,
    change: Change = Change.CREATED,
) -> NewVersion:
    """Build the live version of a draft returned by `provenance.apply_provenance`. Slow for long texts."""
    new = chunks.build(entry_id, draft, now=times.now, reservation=chunks.reservation(options))
    key = options.idempotency_key
    return NewVersion(draft, entry_id, version, times, new, change, options.audited, key)


async def insert(conn: Connection, new: NewVersion) -> SaveOutcome:
    """Write a version. The driver's error for an Idempotency-Key in use means that it is run again."""
    rows, (saved,) = await _insert(conn, [new])
    conn.note_id(*rows[0][-2:])
    return saved


async def insert_group(conn: Connection, new: Sequence[NewVersion]) -> list[SaveOutcome]:
    """Write versions in one statement, which needs neither a transaction nor the lock on the spaces.

    Raises:
        asyncpg.UniqueViolationError: of `idempotency.CONSTRAINT`: an Idempotency-Key is in use.
    """
    _, saved = await _insert(conn, new)
    return saved


async def insert_copies(conn: Connection, new: Sequence[NewVersion]) -> None:
    """Write versions of any entries, several of one entry if at most one is live."""
    await _insert(conn, new)


async def find_group(conn: Connection, new: Sequence[NewVersion]) -> list[SaveOutcome] | None:
    """Return the result of an `insert_group` whose reply was lost, except jobs that are done; None if it was
    not committed.
    """
    rows = await conn.fetch(_FIND, [each.entry_id for each in new])
    return _saved(new, rows) if any(row["is_there"] for row in rows) else None


async def _insert(
    conn: Connection, new: Sequence[NewVersion]
) -> tuple[Sequence[Sequence[Any]], list[SaveOutcome]]:
    """Return the rows of `_INSERT`, and what they mean."""
    events = [
        change_of_entry(each.audited, each.draft, each.entry_id, each.version, each.change, at=each.times.now)
        for each in new
        if each.audited
    ]
    answers = [
        (each.idempotency_key, each.entry_id, each.version, each.change.value, each.times.now)
        for each in new
        if each.idempotency_key
    ]
    rows = await conn.fetch(
        _INSERT,
        *chunks.columns([each.chunks for each in new]),
        *(list(column) for column in zip(*map(_row, new), strict=True)),
        *audit_events.columns(events, now=0),
        *idempotency.columns(answers),
    )
    saved = _saved(new, rows)
    if held := [each.id for each in saved if each.quarantined and each.change is not Change.CREATED]:
        await record_erasure(conn, held)
    return rows, saved


def _row(new: NewVersion) -> tuple[Any, ...]:
    draft, times = new.draft, new.times
    return (
        new.entry_id,
        new.version,
        new.live,
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
        draft.ttl,
        size(draft),
    )


def _saved(new: Sequence[NewVersion], rows: Iterable[Any]) -> list[SaveOutcome]:
    """Return the outcome of each save from rows of `_INSERT` or `_FIND`: at least one of each version, and
    one for each of its jobs.
    """
    by_entry: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        by_entry[row[0]].append(row)
    return [_saved_one(each, by_entry[each.entry_id]) for each in new]


def _saved_one(new: NewVersion, rows: Sequence[Any]) -> SaveOutcome:
    jobs = new.chunks.jobs(row[3:8] for row in rows if row[3] is not None)
    _, embedded, is_held, *_ = rows[0]
    return SaveOutcome(
        id=new.entry_id,
        version=new.version,
        change=new.change,
        jobs=jobs,
        pending=bool(jobs),
        embedded=embedded,
        quarantined=is_held,
    )


def size(draft: Draft) -> int:
    """Return the size in bytes that counts against a quota."""
    return sum(len(text.encode()) for text in (draft.content, *cues_of(draft.attributes)))
