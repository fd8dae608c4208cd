"""Steps that revoke all entries of a source and everything derived from them, and undo or forget that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentctx.errors import NotFound
from agentctx.storage import quarantine
from agentctx.storage.quarantine import IS_QUARANTINED, LockTrust, NoteHidden
from agentctx.storage.steps import Execute, Rows, Statement, Steps
from agentctx.storage.trust import RevocationResult, Source, UndoneRevocation

_EQUAL: Final = ("namespace", "agent", "session", "principal", "origin", "trust")
# The source's own entries are no part of the recursion, which SQLite would do for each of 100,000.
_REACHED: Final = """WITH RECURSIVE own AS MATERIALIZED (SELECT DISTINCT e.id AS entry FROM entries e
      WHERE {condition}),
    made (entry) AS (
      SELECT derivations.entry FROM own CROSS JOIN derivations WHERE derivations.source = own.entry
      UNION SELECT derivations.entry FROM made CROSS JOIN derivations
        WHERE derivations.source = made.entry),
    reached (entry, is_derived) AS (SELECT entry, FALSE FROM own UNION ALL SELECT entry, TRUE FROM made)
    SELECT entry, is_derived, EXISTS (
      SELECT 1 FROM quarantine WHERE quarantine.entry = reached.entry AND quarantine.state <> 'returning'
        AND {held})
    FROM reached"""
# Versions whose text is live, even if others changed its tags.
_HAS_LIVE_TEXT: Final = """(e.live OR EXISTS (SELECT 1 FROM entries shown
    WHERE shown.id = e.id AND shown.live AND shown.content_hash = e.content_hash))"""
_RECORD: Final = """INSERT INTO revocations (at, principal, criteria, entries) VALUES (?, ?, ?, ?)
    RETURNING id"""
_STOP_HOLDING: Final = """DELETE FROM revoked WHERE revocation = ?
    AND entry NOT IN (SELECT entry FROM quarantine WHERE state = 'forgetting')"""
_HELD_BY_ANOTHER: Final = """UPDATE quarantine
    SET revocation = (SELECT min(revoked.revocation) FROM revoked WHERE revoked.entry = quarantine.entry)
    WHERE revocation = ? AND state IN ('held', 'withdrawn')
      AND (screened OR outdated OR waiting IS NOT NULL
           OR EXISTS (SELECT 1 FROM revoked WHERE revoked.entry = quarantine.entry))
    RETURNING revocation"""
_RELEASE: Final = """UPDATE quarantine SET state = 'returning'
    WHERE revocation = ? AND state IN ('held', 'withdrawn')"""
_FORGET: Final = """UPDATE quarantine SET state = 'forgetting', revocation = ?
    WHERE entry IN (SELECT entry FROM revoked WHERE revocation = ?)"""


@dataclass(frozen=True, slots=True)
class FindReached(Statement[Sequence[tuple[str, bool, bool]]]):
    """Asks for the source's entries and those derived from them: whether each is derived, and is quarantined.

    An entry that is both of the source and derived comes twice.
    """

    source: Source

    def rows(self, path: str) -> Rows:
        """Return the query, given the SQL of the path of an entry's file."""
        named = self.source.criteria
        parts: list[tuple[str, tuple[Any, ...]]] = [(_HAS_LIVE_TEXT, ())]
        parts += [(f"e.{name} = ?", (named[name],)) for name in _EQUAL if name in named]
        if (wanted := self.source.path) is not None:
            folder = wanted.rstrip("/") + "/"
            parts.append((f"({path} = ? OR substr({path}, 1, ?) = ?)", (wanted, len(folder), folder)))
        parts += [("e.updated >= ?", (named["since"],))] if "since" in named else []
        parts += [("e.updated < ?", (named["until"],))] if "until" in named else []
        condition = " AND ".join(sql for sql, _ in parts)
        values = tuple(value for _, given in parts for value in given)
        return Rows(_REACHED.format(condition=condition, held=IS_QUARANTINED), values)


def revoke(
    source: Source, *, principal: int, now: int, dry_run: bool
) -> Steps[tuple[RevocationResult, list[str]]]:
    """Quarantine a source's entries as one revocation, and return their ids.

    Without any, and with `dry_run`, only count them.
    """
    if not dry_run:
        yield from LockTrust()
    reached = yield from FindReached(source)
    entries = {entry for entry, is_derived, _ in reached if not is_derived}
    ids = list(dict.fromkeys(entry for entry, *_ in reached))
    held = {entry for entry, _, is_held in reached if is_held}
    derived = len(ids) - len(entries)
    if dry_run or not entries:
        return RevocationResult(None, len(entries), derived, len(held)), []
    criteria = json.dumps(source.criteria, ensure_ascii=False, sort_keys=True)
    ((revocation,),) = yield from Rows(_RECORD, (now, principal, criteria, len(ids)))
    yield from quarantine.hold(ids, revocation=revocation, now=now)
    yield from NoteHidden(ids)
    return RevocationResult(revocation, len(entries), derived, len(held)), ids


def undo(revocation: int) -> Steps[UndoneRevocation]:
    """Release the entries that nothing else keeps in quarantine. Raises `NotFound` for an unknown id."""
    yield from _require(revocation)
    yield from Execute(_STOP_HOLDING, (revocation,))
    left = yield from Rows(_HELD_BY_ANOTHER, (revocation,))
    released = yield from Execute(_RELEASE, (revocation,))
    others = sorted({other for (other,) in left if other is not None})
    return UndoneRevocation(released, len(left), tuple(others))


def forget(revocation: int) -> Steps[int]:
    """Mark all entries of the revocation for erasure; return their number. Raises `NotFound`."""
    yield from _require(revocation)
    return (yield from Execute(_FORGET, (revocation, revocation)))


def _require(revocation: int) -> Steps[None]:
    yield from LockTrust()
    if not (yield from Rows("SELECT 1 FROM revocations WHERE id = ?", (revocation,))):
        raise NotFound(
            f"Revocation {revocation} does not exist.",
            hint="`agentctx get ID` shows the revocation of an entry.",
        )
