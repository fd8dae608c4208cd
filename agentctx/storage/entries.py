"""What an engine does with entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from agentctx.storage.records import Draft, Entry, Filter, IdempotencyKey, Revision, Saved
from agentctx.storage.transfer import ExportPage, ExportSelection

MOST_PAGE_CHARS: Final = 4_000_000
"""Of the contents of a page, and one more entry: a reply of long texts stays one of some megabytes."""
SWEEP_STEP: Final = 100
"""Entries removed in one transaction at most: saves wait for it."""
ErasureListener: TypeAlias = Callable[[Sequence[str]], None]
"""Gets the ids of entries that were forgotten or whose time is over, once they are gone."""


class EntryStorage(Protocol):
    """Entries with their versions."""

    async def save(
        self,
        draft: Draft,
        *,
        owed: bool,
        if_version: int | None = None,
        idempotency: IdempotencyKey | None = None,
        revision: Revision | None = None,
    ) -> Saved:
        """Save an entry. A live entry with the same (namespace, collection, key) gets a new version.

        `owed`: make jobs for every enabled space. `revision`, if given, is asked for the draft when such an
        entry exists. Equal content and attributes change nothing. The trust of the new version is the least
        of the old and the draft's.

        Raises:
            VersionConflict: `if_version` is not the live version (0 means: must not exist).
            IdempotencyKeyReused: the key was used for another digest.
            StorageFull, StorageFailed: nothing was saved.
        """
        ...

    async def revise(
        self,
        entry_id: str,
        revision: Revision,
        *,
        owed: bool,
        if_version: int | None = None,
        principal: int | None = None,
    ) -> Saved:
        """Save what `revision(live entry, None)` makes of an entry. `principal` is who asked for it.

        Raises:
            NotFound: no live entry has this id.
            VersionConflict: `if_version` is not its live version.
        """
        ...

    async def get(self, entry_id: str, version: int | None = None) -> Entry | None:
        """The live version, or the one named. Expired entries are gone."""
        ...

    async def namespace_of(self, entry_id: str) -> str | None:
        """Of a live entry, also of a damaged one, which can be forgotten; None when there is none."""
        ...

    async def find(self, namespace: str, collection: str, key: str) -> Entry | None: ...

    async def history(
        self, entry_id: str, *, limit: int, before: int | None = None
    ) -> tuple[list[Entry], int | None]:
        """A page of versions, newest first, and before which version the next page begins.

        Empty when unknown. It ends early as a page of `list_entries` does.
        """
        ...

    async def list_entries(
        self, wanted: Filter, *, limit: int, before: int | None = None, with_content: bool = True
    ) -> tuple[list[Entry], int | None]:
        """A page of live entries, newest first, and the cursor of the next page.

        It ends early after `MOST_PAGE_CHARS` of contents. Without content, `Entry.content` is empty.
        """
        ...

    async def delete(
        self, entry_id: str, *, if_version: int | None = None, principal: int | None = None
    ) -> int:
        """Remove entry, versions, chunks, words, vectors and jobs at once; returns the number of versions.

        That `principal` did it is recorded, without key and content; None is the service itself.

        Raises:
            NotFound, VersionConflict.
        """
        ...

    async def sweep(self, *, limit: int = SWEEP_STEP) -> int:
        """Remove up to `limit` expired entries, and forgotten idempotency keys; returns how many entries."""
        ...

    def tell_erased(self, listener: ErasureListener) -> None:
        """Notify a listener of each removed entry, so that it keeps nothing of it.

        It is called in the loop of the caller and must not raise.
        """
        ...

    async def export_page(self, selection: ExportSelection, *, after: int, limit: int) -> ExportPage:
        """Live entries in the order of their last version, oldest first; `after` is 0, then a page's `next`.

        An entry that changes meanwhile comes again, at the end; none is left out.
        """
        ...

    async def import_entry(
        self,
        draft: Draft,
        *,
        entry_id: str,
        created: int,
        updated: int,
        owed: bool,
        dry_run: bool = False,
        include_forgotten: bool = False,
    ) -> Saved:
        """Save an entry under an id, with its times, unless it is there and the same, or newer.

        `dry_run`: only say what would be done.

        Raises:
            Forgotten: the id was forgotten, and not `include_forgotten`.
            InvalidInput: the id is another entry's.
            StorageFull, StorageFailed: nothing was saved.
        """
        ...
