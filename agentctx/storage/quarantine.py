"""Steps that keep entries out of the answers, and let them back.

A row of `quarantine` hides its entry as soon as it is committed. Settling then removes the entry's chunks
from the indexes, which keeps searches as fast as before. Entries whose file says something else (`outdated`,
see `file_states`) are held back in the same way, but do not count as quarantined: they keep their versions,
and return with them. Nor do those that wait for a review (`waiting`, see `review`), which only that ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agentctx.errors import NotFound
from agentctx.storage import forgetting
from agentctx.storage.records import Entry, Job
from agentctx.storage.steps import Execute, LockEntries, Rows, Statement, Steps
from agentctx.storage.trust import SettledRows
from agentctx.wire import FileMark, Quarantine, Trust

NOT_QUARANTINED: Final = "NOT EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = e.id)"
IS_DERIVED: Final = "e.id IN (SELECT derivations.entry FROM derivations WHERE derivations.source = {})"
IS_QUARANTINED: Final = "(quarantine.screened OR quarantine.revocation IS NOT NULL)"
"""Whether a row has another reason than the entry's file or a review."""
WAITS: Final = "(quarantine.waiting IS NOT NULL AND quarantine.state IN ('held', 'withdrawn'))"
IS_WAITING: Final = f"EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = e.id AND {WAITS})"  # noqa: S608
AMONG_WAITING: Final = f"e.id IN (SELECT quarantine.entry FROM quarantine WHERE {WAITS})"  # noqa: S608
"""The same for a list of these alone, which need not look at every entry."""
IS_LISTED_AS_HELD: Final = f"({IS_QUARANTINED} OR {WAITS})"
_STAYS: Final = "(outdated OR waiting IS NOT NULL)"
_HAS_REASON: Final = f"({IS_QUARANTINED} OR waiting IS NOT NULL)"

# The reasons of an entry that was just released no longer count.
_HOLD: Final = """INSERT INTO quarantine (entry, screened, revocation, outdated, waiting, state, since)
    SELECT given.id, ?, ?, ?, ?, 'held', ? FROM ?ids AS given WHERE TRUE ORDER BY given.id
    ON CONFLICT (entry) DO UPDATE SET
      screened = CASE quarantine.state WHEN 'returning' THEN excluded.screened
                                       ELSE quarantine.screened OR excluded.screened END,
      revocation = CASE quarantine.state WHEN 'returning' THEN excluded.revocation
                                         ELSE coalesce(quarantine.revocation, excluded.revocation) END,
      outdated = CASE quarantine.state WHEN 'returning' THEN excluded.outdated
                                       ELSE quarantine.outdated OR excluded.outdated END,
      waiting = CASE quarantine.state WHEN 'returning' THEN excluded.waiting
                                      ELSE coalesce(quarantine.waiting, excluded.waiting) END,
      state = CASE quarantine.state WHEN 'returning' THEN 'held' ELSE quarantine.state END"""
# The order of the join is fixed for SQLite; otherwise it would read the whole namespace.
TRUSTS: Final = """SELECT e.id, e.trust FROM ?ids AS source
    CROSS JOIN entries e WHERE e.id = source.id AND e.live AND e.namespace = ?"""
_OF_FILES: Final = """SELECT e.id, CAST(e.attributes AS text) LIKE '%"file":%' FROM ?ids AS given
    CROSS JOIN entries e WHERE e.id = given.id AND e.live AND e.namespace = ?"""
"""Whether each comes from a file: within a text of JSON, only a key looks like that."""
IS_HELD: Final = "SELECT 1 FROM quarantine WHERE entry = ?"
_DERIVE: Final = """INSERT INTO derivations (entry, source) SELECT ?, given.id FROM ?ids AS given WHERE TRUE
    ON CONFLICT DO NOTHING"""
_FLAG: Final = """INSERT INTO flags (entry, flag) SELECT ?, given.id FROM ?ids AS given WHERE TRUE
    ON CONFLICT DO NOTHING"""
_REVOKED: Final = """INSERT INTO revoked (entry, revocation) SELECT given.id, ? FROM ?ids AS given WHERE TRUE
    ON CONFLICT DO NOTHING"""
_RELEASE: Final = f"""UPDATE quarantine SET
      screened = screened AND NOT {_STAYS},
      revocation = CASE WHEN {_STAYS} THEN NULL ELSE revocation END,
      state = CASE WHEN {_STAYS} THEN state ELSE 'returning' END
    WHERE entry = ? AND state <> 'forgetting' AND {IS_QUARANTINED}"""  # noqa: S608 - constant
_GIVE_BACK: Final = f"""UPDATE quarantine SET
      outdated = NOT {_HAS_REASON},
      state = CASE WHEN {_HAS_REASON} THEN state ELSE 'returning' END
    WHERE entry IN ?ids AND outdated AND state IN ('held', 'withdrawn')"""  # noqa: S608 - constant
_REASONS: Final = f"""SELECT DISTINCT screened, coalesce(revoked.revocation, quarantine.revocation),
      waiting IS NOT NULL
    FROM quarantine LEFT JOIN revoked ON revoked.entry = quarantine.entry
    WHERE quarantine.entry IN ?ids AND state <> 'returning' AND {_HAS_REASON}
      AND EXISTS (SELECT 1 FROM entries e
                  WHERE e.id = quarantine.entry AND e.live AND e.namespace = ?)"""  # noqa: S608 - constant
_COUNT: Final = f"""SELECT count(*) FROM quarantine WHERE state <> 'returning' AND {IS_QUARANTINED}
    AND EXISTS (SELECT 1 FROM entries e WHERE e.id = quarantine.entry AND e.live)"""  # noqa: S608 - constant

_MARK: Final = """INSERT INTO file_states (entry, state, reason, since)
    SELECT given.id, ?, ?, ? FROM ?ids AS given WHERE TRUE ON CONFLICT (entry) DO UPDATE SET
      since = CASE file_states.state WHEN excluded.state THEN file_states.since ELSE excluded.since END,
      state = excluded.state, reason = excluded.reason"""
_EXPIRED: Final = """SELECT file_states.entry, e.seq, e.version, e.namespace, e.collection FROM file_states
    LEFT JOIN entries e ON e.id = file_states.entry AND e.live
    LEFT JOIN quarantine ON quarantine.entry = file_states.entry
    WHERE (e.seq IS NULL OR file_states.state = 'withdrawn' AND file_states.since < ?
      AND quarantine.revocation IS NULL)"""
_UNSETTLED: Final = "SELECT entry FROM quarantine WHERE state <> 'withdrawn' ORDER BY entry LIMIT ?"
_TAKEN: Final = """SELECT entry, state, revocation FROM quarantine
    WHERE state <> 'withdrawn' AND entry IN ?ids ORDER BY entry FOR UPDATE"""


@dataclass(frozen=True, slots=True)
class LockTrust(Statement[None]):
    """Lets nothing be derived until the end of the transaction or, `shared`, nothing be revoked."""

    shared: bool = False


@dataclass(frozen=True, slots=True)
class NoteHidden(Statement[None]):
    """Tells other daemons, on commit, that these entries must not be in answers."""

    entries: Sequence[str]


@dataclass(frozen=True, slots=True)
class FindSound(Statement[tuple[int, Entry] | None]):
    """Asks for the row number and the live version of an entry, unless it is damaged."""

    entry: str
    now: int


@dataclass(frozen=True, slots=True)
class RemoveChunks(Statement[None]):
    """Removes the chunks of the version in row `seq`, with their words, vectors and jobs."""

    seq: int


@dataclass(frozen=True, slots=True)
class CutAgain(Statement[Sequence[Job]]):
    """Creates the chunks of a live version that has none and, if a `daemon` embeds them, their jobs."""

    seq: int
    entry: Entry
    now: int
    daemon: str | None


def hold(
    entry_ids: Sequence[str],
    *,
    screened: bool = False,
    revocation: int | None = None,
    outdated: bool = False,
    waits: bool = False,
    now: int,
) -> Steps[None]:
    """Hold entries back, or add a reason if they already are."""
    yield from Execute(_HOLD, (screened, revocation, outdated, now if waits else None, now, entry_ids))
    if revocation is not None:
        yield from Execute(_REVOKED, (revocation, entry_ids))


def reason_of(revocation: int | None, waiting: int | None) -> Quarantine:
    """Return which of the reasons of a row that `IS_LISTED_AS_HELD` is shown."""
    if revocation is not None:
        return "revoked"
    return "screened" if waiting is None else "waiting"


def note_provenance(
    entry_id: str,
    namespace: str,
    *,
    now: int,
    screened: bool,
    sources: Sequence[str] = (),
    flags: Sequence[str] | None = None,
) -> Steps[tuple[Mapping[str, Trust], bool]]:
    """Record the sources and flags of an entry; return the trust of each source, and if it is in quarantine.

    It gets there for the reasons for which its sources are, or as `screened`. Flags of None stay. A source in
    another namespace is unknown: so no answer reveals whether an id belongs to an entry there.
    """
    trusts: dict[str, Trust] = {}
    if sources:
        yield from LockTrust(shared=True)
        trusts = {row[0]: row[1] for row in (yield from Rows(TRUSTS, (sources, namespace)))}
        yield from Execute(_DERIVE, (entry_id, sources))
        yield from _inherit(entry_id, namespace, sources, now=now)
    if flags is not None:
        yield from Execute("DELETE FROM flags WHERE entry = ?", (entry_id,))
        yield from Execute(_FLAG, (entry_id, flags))
    if screened:
        yield from hold([entry_id], screened=True, now=now)
    is_held = bool((yield from Rows(IS_HELD, (entry_id,))))
    if is_held:
        yield from NoteHidden([entry_id])
    return trusts, is_held


def _inherit(entry_id: str, namespace: str, sources: Sequence[str], *, now: int) -> Steps[None]:
    """Quarantine an entry derived from quarantined ones, for the same reasons."""
    for screened, revocation, waits in (yield from Rows(_REASONS, (sources, namespace))):
        reasons = {"screened": bool(screened), "waits": bool(waits)}
        yield from hold([entry_id], revocation=revocation, now=now, **reasons)


def count() -> Steps[int]:
    """Count the live entries in quarantine."""
    ((found,),) = yield from Rows(_COUNT)
    return int(found)


def release(entry_id: str) -> Steps[bool]:
    """Release an entry, whatever the reason; False if it is not in quarantine or is being forgotten.

    An entry whose file says something else, or that waits for a review, stays out of the answers.
    """
    if not (yield from Execute(_RELEASE, (entry_id,))):
        return False
    yield from Execute("DELETE FROM revoked WHERE entry = ?", (entry_id,))
    return True


def mark_files(namespace: str, marks: Sequence[FileMark], *, now: int) -> Steps[tuple[int, list[str]]]:
    """Mark the entries; return how many exist, and the withdrawn ones."""
    yield from LockEntries([entry for mark in marks for entry in mark.entries])
    count = 0
    withdrawn: list[str] = []
    for mark in marks:
        known = yield from Rows(_OF_FILES, (mark.entries, namespace))
        found = [entry for entry, has_file in known if has_file or mark.state == "present"]
        count += len(found)
        yield from _mark(found, mark, now=now)
        if mark.state == "withdrawn":
            withdrawn += found
    if withdrawn:
        yield from NoteHidden(withdrawn)
    return count, withdrawn


def _mark(entry_ids: Sequence[str], mark: FileMark, *, now: int) -> Steps[None]:
    if mark.state == "present":
        yield from Execute("DELETE FROM file_states WHERE entry IN ?ids", (entry_ids,))
    else:
        yield from Execute(_MARK, (mark.state, mark.reason, now, entry_ids))
    if mark.state == "withdrawn":
        yield from hold(entry_ids, outdated=True, now=now)
    else:
        yield from Execute(_GIVE_BACK, (entry_ids,))


def expire_withdrawn(*, before: int, limit: int, now: int) -> Steps[list[str]]:
    """Erase entries withdrawn before a time, and remove the states of erased ones; return all their ids."""
    found = yield from Rows(f"{_EXPIRED} ORDER BY 1 LIMIT ?", (before, limit))
    if not found:
        return []
    ids = [row[0] for row in found]
    yield from LockEntries(ids, with_spaces=True)
    rows = yield from Rows(f"{_EXPIRED} AND file_states.entry IN ?ids", (before, ids))
    for entry_id, seq, *where in rows:
        if seq is not None:
            yield from forgetting.expire(forgetting.LiveRow(seq, entry_id, *where), now)
    expired = [row[0] for row in rows]
    yield from Execute("DELETE FROM file_states WHERE entry IN ?ids", (expired,))
    yield from Execute(_GIVE_BACK, (expired,))
    return expired


def settle(*, now: int, daemon: str | None, limit: int) -> Steps[SettledRows]:
    """Apply the states of up to `limit` rows; a `daemon` embeds what returns."""
    ids = [row[0] for row in (yield from Rows(_UNSETTLED, (limit,)))]
    if not ids:
        return SettledRows(0)
    yield from LockEntries(ids, with_spaces=True)
    jobs: list[Job] = []
    erased = []
    for entry_id, state, revocation in (yield from Rows(_TAKEN, (ids,))):
        if state == "returning":
            yield from Execute("DELETE FROM quarantine WHERE entry = ?", (entry_id,))
            jobs += yield from _put_back(entry_id, now=now, daemon=daemon)
            continue
        if state == "held":
            for (seq,) in (yield from Rows("SELECT seq FROM entries WHERE id = ? AND live", (entry_id,))):
                yield from RemoveChunks(seq)
        elif (yield from _is_erased(entry_id, revocation, now=now)):
            erased.append(entry_id)
        yield from Execute("UPDATE quarantine SET state = 'withdrawn' WHERE entry = ?", (entry_id,))
    # Counts entries that another daemon has settled meanwhile, too: more may follow.
    return SettledRows(len(ids), tuple(erased), tuple(jobs))


def _is_erased(entry_id: str, revocation: int, *, now: int) -> Steps[bool]:
    found = yield from Rows("SELECT principal FROM revocations WHERE id = ?", (revocation,))
    try:
        yield from forgetting.delete(entry_id, now=now, principal=found[0][0] if found else None)
    except NotFound:
        return False
    return True


def _put_back(entry_id: str, *, now: int, daemon: str | None) -> Steps[Sequence[Job]]:
    """Cut the live version again. Does nothing if it has chunks, is damaged or is gone."""
    found = yield from FindSound(entry_id, now)
    if found is None or (yield from Rows("SELECT 1 FROM chunks WHERE entry = ? LIMIT 1", (found[0],))):
        return ()
    return (yield from CutAgain(*found, now, daemon))
