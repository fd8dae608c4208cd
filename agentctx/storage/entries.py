"""Storage of entries, and the records of exports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from agentctx.storage import forgetting, saving
from agentctx.storage.audit import IMPORT, SAVE, AuditedChange, AuditStorage
from agentctx.storage.records import (
    Change,
    Draft,
    Entry,
    IdempotencyKey,
    ImportOptions,
    Revision,
    SaveOutcome,
)
from agentctx.storage.search import Filter, check_listed
from agentctx.storage.steps import ErasureListener, Follower, Steps
from agentctx.storage.versions import SaveCommand

MS_PER_HOUR: Final = 3_600_000
MAX_PAGE_CHARS: Final = 4_000_000
"""Size limit of a page's contents, exceeded by at most one entry, to keep replies to a few megabytes."""
EXPORT_PAGE_CHARS: Final = 400_000
"""A page of an export ends after this much text, so that a reply stays below a few megabytes."""
SWEEP_STEP: Final = 100
"""Maximum number of entries removed per transaction, during which saves wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSelection:
    """The entries to export. Empty tuples select all; `since` (milliseconds) selects later changes."""

    namespaces: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()
    since: int | None = None
    with_history: bool = False
    with_vectors: bool = False

    def __post_init__(self) -> None:
        check_listed(namespaces=self.namespaces, collections=self.collections)


@dataclass(frozen=True, slots=True)
class ExportedVectors:
    """Vectors of one space, float32 little-endian, one per chunk; None while pending."""

    fingerprint: Mapping[str, str | int]
    vectors: tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRow:
    """A live entry, its older versions (oldest first) and the positions of its chunks."""

    entry: Entry
    versions: tuple[Entry, ...]
    chunks: tuple[tuple[int, int], ...]
    vectors: ExportedVectors | None


@dataclass(frozen=True, slots=True)
class ExportPage:
    """A page of an export, oldest first. `next` is the cursor of the following page, None on the last."""

    entries: tuple[ExportRow, ...]
    next: int | None


class EntryStorage(ABC):
    """Entries with their versions. What is written is decided by the steps of `saving`, for every engine."""

    def __init__(
        self, follower: Follower, audit: AuditStorage, *, idempotency_hours: int, max_versions: int
    ) -> None:
        self._follower = follower
        self._audit = audit
        self._idempotency_ms = idempotency_hours * MS_PER_HOUR
        self._max_versions = max_versions

    async def save(
        self,
        draft: Draft,
        *,
        embed: bool,
        if_version: int | None = None,
        idempotency: IdempotencyKey | None = None,
        revision: Revision | None = None,
    ) -> SaveOutcome:
        """Save an entry. A live entry with the same (namespace, collection, key) gets a new version.

        With `embed`, create jobs for every enabled space. If such an entry exists, `revision`, if given,
        builds the draft. Equal content and attributes change nothing, even by another agent. The new version
        gets the lower trust of the old version and the draft; the oldest but the first are then removed, if
        there are too many.

        Raises:
            VersionConflict: `if_version` is not the live version (0: the entry must not exist).
            IdempotencyKeyReused: the key was used with another digest.
            StorageFull, StorageFailed: nothing was saved.
        """
        command = self._command(SAVE, draft.principal, embed, if_version)
        return await self._save(replace(command, revision=revision, idempotency=idempotency), draft)

    async def _save(self, command: SaveCommand, draft: Draft) -> SaveOutcome:
        steps = partial(saving.save, command, draft)
        return await self._follower.change(steps, self._announce, shares_spaces=True)

    async def revise(
        self,
        entry_id: str,
        revision: Revision,
        *,
        embed: bool,
        if_version: int | None = None,
        principal: int | None = None,
    ) -> SaveOutcome:
        """Save the draft that `revision(live entry, None)` returns, on behalf of `principal`.

        Raises:
            NotFound: no live entry has this id.
            VersionConflict: `if_version` is not the live version.
        """
        command = self._command(SAVE, principal, embed, if_version)
        return await self._change(partial(saving.revise, command, entry_id, revision))

    async def delete(
        self,
        entry_id: str,
        *,
        if_version: int | None = None,
        principal: int | None = None,
        is_audited: bool = True,
    ) -> int:
        """Delete an entry with its versions, chunks, words, vectors and jobs; return the number of versions.

        The audit trail records the deletion without key and content; a `principal` of None is the daemon.
        Unless `is_audited`, the caller records it for many entries at once.

        Raises:
            NotFound, VersionConflict.
        """
        whose = {"if_version": if_version, "principal": principal}
        delete = partial(
            forgetting.delete, entry_id, now=self._follower.clock(), is_audited=is_audited, **whose
        )
        return await self._follower.change(
            delete, lambda _: self._follower.notes.note_deletion([entry_id]), shares_spaces=True
        )

    async def sweep(self, *, limit: int = SWEEP_STEP) -> int:
        """Remove up to `limit` expired entries, and old idempotency keys; return the number of entries."""
        now = self._follower.clock()
        sweep = partial(forgetting.sweep, now=now, forget_before=now - self._idempotency_ms, limit=limit)
        erased: list[str] = await self._follower.change(sweep, self._note_erased, shares_spaces=True)
        return len(erased)

    async def import_entry(self, draft: Draft, wanted: ImportOptions, *, embed: bool) -> SaveOutcome:
        """Save an entry under the given id and times, unless the same or a newer version exists.

        Raises:
            Forgotten: the id was forgotten, and `include_forgotten` is false.
            InvalidInput: the id belongs to another entry.
            StorageFull, StorageFailed: nothing was saved.
        """
        command = self._command(IMPORT, draft.principal, embed)
        steps = partial(saving.import_entry, command, draft, wanted)
        return await (self._follower.look(steps) if wanted.dry_run else self._change(steps))

    async def _change(self, steps: Callable[[], Steps[SaveOutcome]]) -> SaveOutcome:
        return await self._follower.change(steps, self._announce, shares_spaces=True)

    def on_erased(self, listener: ErasureListener) -> None:
        """Register a listener for removed entries, so that it can drop what it keeps of them.

        It is called in this caller's event loop and must not raise.
        """
        self._follower.notes.listeners.append(listener)

    def _command(
        self, kind: str, principal: int | None, embed: bool, if_version: int | None = None
    ) -> SaveCommand:
        return SaveCommand(
            now=self._follower.clock(),
            embed=embed,
            if_version=if_version,
            audited=AuditedChange(kind, principal) if self._audit.saves else None,
            max_versions=self._max_versions,
            daemon=self._follower.daemon,
        )

    def _announce(self, saved: SaveOutcome) -> None:
        """Drop in-memory copies of erased entries, and of what answers no longer have."""
        self._note_erased(saved.erased)
        hidden = [saved.id] if saved.quarantined and saved.change is not Change.CREATED else []
        if hidden or saved.closed:
            self._follower.notes.note_quarantined([*hidden, *saved.closed])

    def _note_erased(self, erased: Sequence[str]) -> None:
        if erased:
            self._follower.notes.note_deletion(erased)

    @abstractmethod
    async def get(self, entry_id: str, version: int | None = None) -> Entry | None:
        """Return the live version, or the given one; None if it does not exist or has expired."""

    @abstractmethod
    async def namespace_of(self, entry_id: str) -> str | None:
        """Return the namespace of a live entry, or None. Damaged entries count: they can be forgotten."""

    @abstractmethod
    async def find(self, namespace: str, collection: str, key: str) -> Entry | None: ...

    @abstractmethod
    async def find_by_prefix(self, namespace: str, collection: str, prefix: str) -> Entry | None:
        """Return the live entry with the first key that is the prefix or begins with it."""

    @abstractmethod
    async def history(
        self, entry_id: str, *, limit: int, before: int | None = None
    ) -> tuple[list[Entry], int | None]:
        """Return a page of versions, newest first, and the `before` of the next page.

        Empty if the entry is unknown. A page may end early, as with `list_entries`.
        """

    @abstractmethod
    async def list_entries(
        self, wanted: Filter, *, limit: int, before: str | None = None, with_content: bool = True
    ) -> tuple[list[Entry], str | None]:
        """Return a page of live entries, newest first, and the id that the next page continues after.

        It ends early after `MAX_PAGE_CHARS` of content. Without content, `Entry.content` is empty.
        """

    @abstractmethod
    async def count_by_namespace(self) -> Mapping[str, int]:
        """Return the number of entries that `list_entries` shows of each namespace that has any."""

    @abstractmethod
    async def ids_of(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """Return the first ids above `after` of live entries, in whatever state, in ascending order."""

    @abstractmethod
    async def export_page(self, selection: ExportSelection, *, after: int, limit: int) -> ExportPage:
        """Return live entries by last change, oldest first; `after` is 0 at first, then a page's `next`.

        An entry changed meanwhile appears again at the end; none is omitted.
        """
