"""Saves, edits and imports entries: what is written, decided in steps without I/O.

First come the statements that an engine executes, then the steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from agentctx.errors import Forgotten, KeyTaken
from agentctx.storage import quarantine, review, supersession, versions
from agentctx.storage.chunk_texts import content_hash
from agentctx.storage.forgetting import LiveRow, LockEntry, expire
from agentctx.storage.ids import new_id
from agentctx.storage.records import (
    TRUST_ORDER,
    Change,
    Draft,
    Entry,
    EntryKey,
    IdempotencyKey,
    ImportOptions,
    Job,
    Revision,
    SaveOutcome,
)
from agentctx.storage.steps import Execute, Rows, Statement, Steps
from agentctx.storage.versions import SaveCommand, Times, is_expired, least_trust

WAS_FORGOTTEN: Final = """SELECT 1 FROM audit WHERE subject = ? AND kind = 'forget'
    UNION ALL SELECT 1 FROM forgotten WHERE entry = ? LIMIT 1"""
STATE: Final = """SELECT EXISTS (SELECT 1 FROM spaces WHERE enabled),
      EXISTS (SELECT 1 FROM quarantine WHERE entry = ?),
      EXISTS (SELECT 1 FROM entries e JOIN chunks ON chunks.entry = e.seq JOIN jobs ON jobs.chunk = chunks.id
        WHERE e.id = ? AND e.live AND jobs.space IN (SELECT id FROM awaited_spaces))"""
_FORGET_VERSIONS: Final = """DELETE FROM entries WHERE seq IN (
    SELECT seq FROM entries WHERE id = ?
    ORDER BY version IN (1, ?) DESC, version = (
      SELECT min(version) FROM entries WHERE id = ? AND content_hash = (
        SELECT content_hash FROM entries WHERE id = ? AND version = ?)) DESC, version DESC
    LIMIT 1000000 OFFSET ?)"""
"""Keeps the first version, the one that brought the live text, and the newest. SQLite skips none without a
limit."""
_REMEMBER: Final = """INSERT INTO idempotency (principal, key, digest, entry, version, change, created)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""


class LiveEntry(NamedTuple):
    """A live version and the number of its row; it `is_marked` if it has flags or is in quarantine."""

    seq: int
    entry: Entry
    is_marked: bool

    @property
    def row(self) -> LiveRow:
        entry = self.entry
        return LiveRow(self.seq, entry.id, entry.version, entry.namespace, entry.collection)


class EarlierSave(NamedTuple):
    """What was saved under an Idempotency-Key. The digest is `FORGOTTEN_DIGEST` once that is forgotten."""

    digest: bytes
    entry_id: str
    version: int
    change: str


class EntryState(NamedTuple):
    """Whether any space is enabled, the entry is in quarantine, and embeddings of it are pending."""

    embedded: bool = True
    is_held: bool = False
    pending: bool = True

    def outcome(self, entry_id: str, version: int, change: Change, jobs: tuple[Job, ...] = ()) -> SaveOutcome:
        return SaveOutcome(
            id=entry_id,
            version=version,
            change=change,
            jobs=jobs,
            pending=self.pending,
            embedded=self.embedded,
            quarantined=self.is_held,
        )


WITH_JOBS: Final = EntryState()
"""An entry with jobs is in an enabled space, and not in quarantine."""


FoundEntry: TypeAlias = tuple[LiveEntry | None, EarlierSave | None]


@dataclass(frozen=True, slots=True)
class FindLive(Statement[FoundEntry]):
    """Find the live entry with an id or a key, expired or not, or the earlier save of the same request.

    Raises StorageCorrupt if the entry is damaged.
    """

    by: str | EntryKey | None
    request: IdempotencyKey | None = None


def state_of(entry_id: str) -> Steps[EntryState]:
    """Return the state of an entry, whether or not it exists."""
    ((embedded, is_held, pending),) = yield from Rows(STATE, (entry_id, entry_id))
    return EntryState(bool(embedded), bool(is_held), bool(pending))


@dataclass(frozen=True, slots=True)
class InsertVersion(Statement[SaveOutcome]):
    """Write a live version with its chunks, words and jobs; record it in the audit trail and for the request.

    With the same content it gets the chunks of the version `before`.
    """

    command: SaveCommand
    draft: Draft
    entry_id: str
    times: Times
    version: int = 1
    change: Change = Change.CREATED
    before: int | None = None
    """The row of the version that was live until now."""

    @property
    def is_carried(self) -> bool:
        """Whether it gets the chunks of the version before; in quarantine it has none."""
        return self.change is Change.ATTRIBUTES and bool(self.draft.spans)

    def row(self, names: Iterable[str], **more: Any) -> list[Any]:
        """Return the values of these columns of its row; `more` has those that only the engine knows."""
        draft = self.draft
        known = {
            "id": self.entry_id,
            "version": self.version,
            "content_hash": content_hash(draft.content),
            "attributes": versions.attributes_text(draft.attributes),
            "created": self.times.created,
            "updated": self.times.updated,
        } | more
        return [known[name] if name in known else getattr(draft, name) for name in names]


@dataclass(frozen=True, slots=True)
class ChangeInPlace(Statement[tuple[Job, ...]]):
    """Replace attributes, trust and end of a live version, and record it in the audit trail.

    Labels and header change only with `draft.in_place`: the agent of an equal save is not the entry's.
    """

    command: SaveCommand
    draft: Draft
    live: LiveEntry


def remember(request: IdempotencyKey, saved: SaveOutcome, now: int) -> Execute:
    """Record the answer to a request. With a key in use, PostgreSQL runs the transaction again."""
    what = (saved.id, saved.version, saved.change.value)
    return Execute(_REMEMBER, (request.principal, request.key, request.digest, *what, now))


def save(command: SaveCommand, draft: Draft) -> Steps[SaveOutcome]:
    """Create the entry, or the next version of the live one with the same key."""
    now, request = command.now, command.idempotency
    live, earlier = None, None
    if request or draft.key:
        live, earlier = yield from FindLive(EntryKey.of(draft), request)
    if request and earlier:
        return (yield from _repeat(request, earlier))
    erased: tuple[str, ...] = ()
    if live and is_expired(live.entry, now):
        yield from expire(live.row, now)
        erased, live = (live.entry.id,), None
    versions.check_version(live.entry.version if live else 0, command.if_version)
    waits = yield from review.must_wait(draft, now=now)
    if live is None:
        if (known := request and request.entry_id) and (present := (yield from _captured(known))):
            return present
        entry_id = known or new_id(now, draft.namespace)
        draft = yield from apply_provenance(draft, entry_id, now=now, is_clean=True, waits=waits)
        draft = yield from supersession.resolve(draft, entry_id, None, now=now)
        saved = yield from _create(command, draft, entry_id, Times(now, now, now))
    else:
        revised = command.revision(live.entry, draft) if command.revision else draft
        saved = yield from follow(command, live, supersession.kept(live.entry, revised), waits=waits)
    return replace(saved, erased=erased) if erased else saved


def _captured(entry_id: str) -> Steps[SaveOutcome | None]:
    """Return the answer for an entry that was captured or imported before. Raises `Forgotten`."""
    yield from LockEntry(entry_id)
    live, _ = yield from FindLive(entry_id)
    if live is not None:
        state = (yield from state_of(entry_id))._replace(pending=live.entry.pending)
        return state.outcome(entry_id, live.entry.version, Change.NONE)
    yield from _refuse_forgotten(entry_id)
    return None


def _refuse_forgotten(entry_id: str) -> Steps[None]:
    """Raise `Forgotten` if the entry was deliberately forgotten."""
    if (yield from Rows(WAS_FORGOTTEN, (entry_id, entry_id))):
        raise Forgotten(f"{entry_id!r} was forgotten here.")


def revise(command: SaveCommand, entry_id: str, revision: Revision) -> Steps[SaveOutcome]:
    """Save the draft that `revision` builds from the live version."""
    yield from LockEntry(entry_id)
    live, _ = yield from FindLive(entry_id)
    if live is None or is_expired(live.entry, command.now):
        raise versions.unknown_entry(entry_id)
    versions.check_version(live.entry.version, command.if_version)
    return (yield from follow(command, live, revision(live.entry, None)))


def follow(
    command: SaveCommand, live: LiveEntry, draft: Draft, *, updated: int | None = None, waits: bool = False
) -> Steps[SaveOutcome]:
    """Save a draft over a live version: as the next one, in place, or not at all if equal.

    Nor if it `waits` and the live version does not: what waits cannot change what was kept.

    `updated`, the time of an imported draft, must be later than that of the live version; other drafts get
    `Entry.next_update(now)`.
    """
    entry, now = live.entry, command.now
    trust = least_trust(entry.trust, draft.trust)
    is_change = waits and versions.change_by_save(entry, draft, trust).is_version
    if is_change and not (yield from review.is_waiting(entry.id)):
        return (yield from _unchanged(command, live))
    draft = yield from apply_provenance(draft, entry.id, now=now, is_clean=not live.is_marked)
    draft = replace(draft, trust=least_trust(entry.trust, draft.trust))
    if updated is None:
        draft = yield from supersession.resolve(draft, entry.id, entry, now=now)
    change = versions.change_by_save(entry, draft, draft.trust)
    is_pending = entry.pending and (change is Change.NONE or bool(draft.spans))
    if change.is_version:
        times = Times(entry.created, entry.next_update(now) if updated is None else updated, now)
        yield from _refuse_taken_key(draft, entry.key)
        new = InsertVersion(command, draft, entry.id, times, entry.version + 1, change, live.seq)
        saved = yield from new
        if new.version > command.max_versions:
            which = (entry.id, new.version, entry.id, entry.id, new.version, command.max_versions)
            yield from Execute(_FORGET_VERSIONS, which)
        saved = replace(saved, closed=(yield from supersession.link(entry.id, entry, draft)))
        return replace(saved, pending=saved.pending or is_pending) if new.is_carried else saved
    jobs: tuple[Job, ...] = ()
    closed: tuple[str, ...] = ()
    if change is Change.IN_PLACE:
        jobs = yield from ChangeInPlace(command, draft, live)
        closed = yield from supersession.link(entry.id, entry, draft)
    state = WITH_JOBS if jobs else (yield from state_of(entry.id))._replace(pending=is_pending)
    saved = state.outcome(entry.id, entry.version, change, jobs)
    if command.idempotency:
        yield from remember(command.idempotency, saved, now)
    return replace(saved, closed=closed) if closed else saved


def _unchanged(command: SaveCommand, live: LiveEntry) -> Steps[SaveOutcome]:
    entry = live.entry
    state = (yield from state_of(entry.id))._replace(pending=entry.pending)
    saved = state.outcome(entry.id, entry.version, Change.NONE)
    if command.idempotency:
        yield from remember(command.idempotency, saved, command.now)
    return saved


def _create(command: SaveCommand, draft: Draft, entry_id: str, times: Times) -> Steps[SaveOutcome]:
    saved = yield from InsertVersion(command, draft, entry_id, times)
    closed = yield from supersession.link(entry_id, None, draft)
    return replace(saved, closed=closed) if closed else saved


def import_entry(command: SaveCommand, draft: Draft, wanted: ImportOptions) -> Steps[SaveOutcome]:
    """Create the entry with its id and times, or add the next version to an older existing entry.

    An existing entry has this id or the same key; an expired one is erased first.
    """
    now, entry_id = command.now, wanted.entry_id
    if not wanted.dry_run:
        yield from LockEntry(entry_id, EntryKey.of(draft))
    live, expired = yield from _present(draft, entry_id, now)
    entry = live.entry if live else None
    draft = yield from supersession.without_circles(draft, entry.id if entry else entry_id)
    is_live = entry is not None and entry.id == entry_id
    # An id that is live again was brought back on purpose.
    if not (wanted.include_forgotten or is_live):
        yield from _refuse_forgotten(entry_id)
    change = versions.change_by_import(entry, draft, wanted.updated)
    is_held = wanted.is_held and versions.is_held_by_import(entry, draft, change)
    if is_held and not wanted.dry_run:
        held = entry.id if entry else entry_id
        yield from quarantine.note_provenance(held, draft.namespace, now=now, screened=True)
    if wanted.dry_run or change is Change.NONE:
        is_out = is_held or (wanted.waits and entry is None)
        return versions.outcome_of_import(entry, entry_id, change, quarantined=is_out)
    if live:
        live = live._replace(is_marked=live.is_marked or is_held)
        return (yield from follow(command, live, draft, updated=wanted.updated, waits=wanted.waits))
    for each in expired.values():
        yield from expire(each, now)
    draft = yield from apply_provenance(draft, entry_id, now=now, is_clean=False, waits=wanted.waits)
    times = Times(wanted.created, wanted.updated, now)
    saved = yield from _create(command, draft, entry_id, times)
    return replace(saved, erased=tuple(expired))


def apply_provenance(
    draft: Draft, entry_id: str, *, now: int, is_clean: bool, waits: bool = False
) -> Steps[Draft]:
    """Record the sources and flags of a draft, and return it with the resulting trust and chunks.

    The trust is the lowest of its own and its sources', whose is the lowest of all if they are unknown. An
    entry derived from a quarantined one is quarantined too. A quarantined draft gets no chunks, so that no
    index has it; nor does one that `waits`. `is_clean`: the entry has no flags and is not in quarantine.
    """
    if waits:
        yield from quarantine.hold([entry_id], waits=True, now=now)
    sources = [source for source in draft.derived_from if source != entry_id]
    flags = draft.flags if draft.flags or not is_clean else None
    if is_clean and not (sources or flags or draft.is_held or waits):
        return draft
    trusts, is_held = yield from quarantine.note_provenance(
        entry_id, draft.namespace, now=now, screened=draft.is_held, sources=sources, flags=flags
    )
    trust = least_trust(draft.trust, *(trusts.get(source, TRUST_ORDER[0]) for source in sources))
    return replace(draft, trust=trust, spans=() if is_held else draft.spans)


def _present(draft: Draft, entry_id: str, now: int) -> Steps[tuple[LiveEntry | None, dict[str, LiveRow]]]:
    """Return the entry with the id or else the key of an import, and those that have expired, by id."""
    expired = {}
    key = EntryKey.of(draft)
    for by in (entry_id, key) if key else (entry_id,):
        live, _ = yield from FindLive(by)
        if live and is_expired(live.entry, now):
            expired[live.entry.id] = live.row
        elif live:
            if by == entry_id:
                versions.refuse_other_entry(live.entry, draft)
            return live, expired
    return None, expired


def _refuse_taken_key(draft: Draft, present: str | None) -> Steps[None]:
    """Raise `KeyTaken` if there is an entry with the key to which another one would move."""
    key = EntryKey.of(draft)
    if key is not None and key.name != present:
        yield from LockEntry(None, key)
        taken, _ = yield from FindLive(key)
        if taken is not None:
            raise KeyTaken(f"Entry {taken.entry.id!r} already has this trigger, error and fix.")


def _repeat(request: IdempotencyKey, earlier: EarlierSave) -> Steps[SaveOutcome]:
    """Return the answer to the save that was made with this key. Raises like `check_repeated`."""
    versions.check_repeated(request, earlier.digest)
    state = yield from state_of(earlier.entry_id)
    return state.outcome(earlier.entry_id, earlier.version, Change(earlier.change))
