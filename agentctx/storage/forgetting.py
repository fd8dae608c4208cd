"""Forgets entries, on request or because they have expired: statements, and the steps between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agentctx.storage import supersession, versions
from agentctx.storage.audit import EXPIRE, FORGET, Event
from agentctx.storage.records import EntryKey
from agentctx.storage.steps import Execute, Statement, Steps

# Other reasons stay in quarantine: an import must not bring the entry back without them.
_STOP_WAITING: Final = """DELETE FROM quarantine WHERE entry = ? AND waiting IS NOT NULL
    AND NOT (screened OR outdated OR revocation IS NOT NULL)"""


class LiveRow(NamedTuple):
    """The row of a live version, damaged or not."""

    seq: int
    id: str
    version: int
    namespace: str
    collection: str


@dataclass(frozen=True, slots=True)
class LockEntry(Statement[None]):
    """Keep other transactions from changing the entries with this id or key, until this one ends."""

    entry_id: str | None
    key: EntryKey | None = None


@dataclass(frozen=True, slots=True)
class FindRow(Statement[LiveRow | None]):
    """Find the row of a live entry that has not expired."""

    entry_id: str
    now: int


@dataclass(frozen=True, slots=True)
class FindExpired(Statement[Sequence[LiveRow]]):
    """Find up to `limit` expired entries, which no other transaction changes from now on."""

    now: int
    limit: int


@dataclass(frozen=True, slots=True)
class ForgetRequests(Statement[None]):
    """Remove the answers to requests from before a time."""

    before: int
    now: int


@dataclass(frozen=True, slots=True)
class Erase(Statement[int]):
    """Remove all versions of an entry and what depends on them; return the number of versions.

    Its requests get `FORGOTTEN_DIGEST`. Stored questions that it answered go, since they may repeat its text.
    The event goes into the audit trail; without one, only that the entry was forgotten is recorded.
    """

    row: LiveRow
    event: Event | None
    now: int


def delete(
    entry_id: str,
    *,
    now: int,
    if_version: int | None = None,
    principal: int | None = None,
    is_audited: bool = True,
) -> Steps[int]:
    """Remove all versions of an entry and everything that depends on them, even if damaged.

    Unless `is_audited`, the caller records it in the audit trail.
    """
    yield from LockEntry(entry_id)
    row = yield from FindRow(entry_id, now)
    if row is None:
        raise versions.unknown_entry(entry_id)
    versions.check_version(row.version, if_version)
    return (yield from _erase(row, _erasure(FORGET, row, principal) if is_audited else None, now))


def expire(row: LiveRow, now: int) -> Steps[int]:
    """Remove all versions of an expired entry; the caller has locked it."""
    return (yield from _erase(row, _erasure(EXPIRE, row, None), now))


def sweep(*, now: int, forget_before: int, limit: int) -> Steps[list[str]]:
    """Remove up to `limit` expired entries, and old idempotency keys (`forget_before`); return the ids."""
    yield from ForgetRequests(forget_before, now)
    rows = yield from FindExpired(now, limit)
    for row in rows:
        yield from expire(row, now)
    return [row.id for row in rows]


def _erase(row: LiveRow, event: Event | None, now: int) -> Steps[int]:
    yield from supersession.unlink(row.id)
    yield from Execute(_STOP_WAITING, (row.id,))
    return (yield from Erase(row, event, now))


def _erasure(kind: str, row: LiveRow, principal: int | None) -> Event:
    where, detail = row.namespace, {"collection": row.collection}
    return Event(kind=kind, principal=principal, namespace=where, subject=row.id, detail=detail)
