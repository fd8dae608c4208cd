"""Storage of entries, and the records of exports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from agentctx.storage.records import Draft, Entry, IdempotencyKey, Revision, SaveOutcome
from agentctx.storage.search import Filter, check_listed

MAX_PAGE_CHARS: Final = 4_000_000
"""Size limit of a page's contents, exceeded by at most one entry, to keep replies to a few megabytes."""
SWEEP_STEP: Final = 100
"""Maximum number of entries removed per transaction, during which saves wait."""
ErasureListener: TypeAlias = Callable[[Sequence[str]], None]
"""Called with the ids of forgotten or expired entries after their removal."""


class ImportOptions(NamedTuple):
    """Under which id and times (milliseconds) a version is imported, and how."""

    entry_id: str
    created: int
    updated: int
    is_held: bool = False
    """It is in quarantine then, even if it existed with the same text."""
    dry_run: bool = False
    """Only return what would be done."""
    include_forgotten: bool = False


class EntryStorage(Protocol):
    """Entries with their versions."""

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

    async def get(self, entry_id: str, version: int | None = None) -> Entry | None:
        """Return the live version, or the given one; None if it does not exist or has expired."""

    async def namespace_of(self, entry_id: str) -> str | None:
        """Return the namespace of a live entry, or None. Damaged entries count: they can be forgotten."""

    async def find(self, namespace: str, collection: str, key: str) -> Entry | None: ...

    async def find_by_prefix(self, namespace: str, collection: str, prefix: str) -> Entry | None:
        """Return the live entry with the first key that is the prefix or begins with it."""

    async def history(
        self, entry_id: str, *, limit: int, before: int | None = None
    ) -> tuple[list[Entry], int | None]:
        """Return a page of versions, newest first, and the `before` of the next page.

        Empty if the entry is unknown. A page may end early, as with `list_entries`.
        """

    async def list_entries(
        self, wanted: Filter, *, limit: int, before: str | None = None, with_content: bool = True
    ) -> tuple[list[Entry], str | None]:
        """Return a page of live entries, newest first, and the id that the next page continues after.

        It ends early after `MAX_PAGE_CHARS` of content. Without content, `Entry.content` is empty.
        """

    async def count_by_namespace(self) -> Mapping[str, int]:
        """Return the number of entries that `list_entries` shows of each namespace that has any."""

    async def ids_of(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """Return the first ids above `after` of live entries, in whatever state, in ascending order."""

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

    async def sweep(self, *, limit: int = SWEEP_STEP) -> int:
        """Remove up to `limit` expired entries, and old idempotency keys; return the number of entries."""

    def on_erased(self, listener: ErasureListener) -> None:
        """Register a listener for removed entries, so that it can drop what it keeps of them.

        It is called in this caller's event loop and must not raise.
        """

    async def export_page(self, selection: ExportSelection, *, after: int, limit: int) -> ExportPage:
        """Return live entries by last change, oldest first; `after` is 0 at first, then a page's `next`.

        An entry changed meanwhile appears again at the end; none is omitted.
        """

    async def import_entry(self, draft: Draft, wanted: ImportOptions, *, embed: bool) -> SaveOutcome:
        """Save an entry under the given id and times, unless the same or a newer version exists.

        Raises:
            Forgotten: the id was forgotten, and `include_forgotten` is false.
            InvalidInput: the id belongs to another entry.
            StorageFull, StorageFailed: nothing was saved.
        """


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
