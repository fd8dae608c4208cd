"""New live versions, written in one statement: rows, chunks, words, jobs and audit rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from agentctx.storage.audit import AuditedChange, change_of_entry
from agentctx.storage.chunk_texts import content_hash, cues_of
from agentctx.storage.postgresql.audit import audit_events, chain_set
from agentctx.storage.postgresql.audit.chain_set import Chain
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.entries import chunks, idempotency
from agentctx.storage.postgresql.entries.chunks import NewChunks, Reservation
from agentctx.storage.postgresql.entries.rows import IS_EMBEDDING
from agentctx.storage.postgresql.erasures import record_erasure
from agentctx.storage.records import Change, Draft, IdempotencyKey, Saved
from agentctx.storage.versions import Times, attributes_text

_COLUMNS: Final = {
    "id": "text",
    "version": "int",
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
    "size": "bigint",
}
_FIRST: Final = chunks.PARAMETERS + 1
_NAMES: Final = ", ".join(_COLUMNS)
_VALUES: Final = ", ".join("attributes::json" if name == "attributes" else name for name in _COLUMNS)
_GIVEN: Final = ", ".join(f"${place}::{kind}[]" for place, kind in enumerate(_COLUMNS.values(), _FIRST))
_INSERT: Final = f"""
WITH version AS (
  INSERT INTO entries (live, {_NAMES})
  SELECT true, {_VALUES} FROM unnest({_GIVEN}) WITH ORDINALITY AS g ({_NAMES}, place) ORDER BY place
  RETURNING seq, id, namespace),
{chunks.INSERTING}, {audit_events.appending(_FIRST + len(_COLUMNS))}
SELECT version.id, {IS_EMBEDDING}, EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = version.id),
  job.id, job.chunk, job.space, job.hash, job.ordinal
FROM version LEFT JOIN {chunks.CREATED_JOBS} ON job.entry = version.seq ORDER BY job.id"""  # noqa: S608 - constants

_CLAIM_AND_TAKE: Final = f"""
WITH {idempotency.CLAIMING}
SELECT ARRAY(SELECT entry FROM claimed), free.*
FROM (SELECT) AS always LEFT JOIN ({chain_set.FREE}) AS free ON true"""  # noqa: S608 - constants


class NewVersion(NamedTuple):
    """A live version to write. `audited`, if given, is the change to record in the audit trail, and
    `idempotency_key` the one to record the answer with.
    """

    draft: Draft
    entry_id: str
    version: int
    times: Times
    chunks: NewChunks
    audited: AuditedChange | None
    idempotency_key: IdempotencyKey | None

    @property
    def change(self) -> Change:
        return Change.CREATED if self.version == 1 else Change.VERSION


def build(
    draft: Draft,
    entry_id: str,
    version: int,
    *,
    times: Times,
    reservation: Reservation | None,
    audited: AuditedChange | None,
    idempotency_key: IdempotencyKey | None = None,
) -> NewVersion:
    """Build the version of a draft returned by `provenance.apply_provenance`. Slow for long texts."""
    new = chunks.build(entry_id, draft, now=times.now, reservation=reservation)
    return NewVersion(draft, entry_id, version, times, new, audited, idempotency_key)


async def insert(conn: Connection, new: Sequence[NewVersion]) -> list[Saved | None]:
    """Write versions of different entries; return the outcome of each save, None if its Idempotency-Key is in
    use.
    """
    chain, in_use = await _take(conn, new)
    written = [each for each in new if each.entry_id not in in_use]
    saved = {each.id: each for each in await _insert(conn, chain, written)} if written else {}
    return [saved.get(each.entry_id) for each in new]


async def _take(conn: Connection, new: Sequence[NewVersion]) -> tuple[Chain | None, set[str]]:
    """Return a chain for the audit rows, if any, and the entries whose Idempotency-Key is in use."""
    is_audited = any(each.audited for each in new)
    answers = [
        (each.idempotency_key, each.entry_id, each.version, each.change.value, each.times.now)
        for each in new
        if each.idempotency_key
    ]
    if not answers:
        return await chain_set.take(conn) if is_audited else None, set()
    claimed, *free = await conn.fetchrow(_CLAIM_AND_TAKE, *idempotency.columns(answers))
    in_use = {entry for _, entry, *_ in answers}.difference(claimed)
    if free[0] is None:
        return await chain_set.take(conn) if is_audited else None, in_use
    return chain_set.taken(conn, free), in_use


async def _insert(conn: Connection, chain: Chain | None, new: Sequence[NewVersion]) -> list[Saved]:
    events = [
        change_of_entry(
            chain.secret,
            each.audited,
            each.draft,
            each.entry_id,
            each.version,
            each.change,
            at=each.times.now,
        )
        for each in new
        if chain and each.audited
    ]
    rows = await conn.fetch(
        _INSERT,
        *chunks.columns([each.chunks for each in new]),
        *(list(column) for column in zip(*map(_row, new), strict=True)),
        *audit_events.columns(chain, events, now=0),
    )
    by_entry: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        by_entry[row[0]].append(row)
    saved = [_saved(each, by_entry[each.entry_id]) for each in new]
    if held := [each.id for each in saved if each.quarantined and each.change is not Change.CREATED]:
        await record_erasure(conn, held)
    return saved


def _row(new: NewVersion) -> tuple[Any, ...]:
    draft, times = new.draft, new.times
    return (
        new.entry_id,
        new.version,
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
        size(draft),
    )


def _saved(new: NewVersion, rows: Sequence[Any]) -> Saved:
    """`rows` has at least one row, and one for each job."""
    jobs = new.chunks.jobs(row[3:] for row in rows if row[3] is not None)
    _, embedded, is_held, *_ = rows[0]
    return Saved(
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
