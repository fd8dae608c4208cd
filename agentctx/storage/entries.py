"""Storage of entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from agentctx.storage.records import Draft, Entry, Filter, IdempotencyKey, Revision, Saved
from agentctx.storage.transfer import ExportPage, ExportSelection

MOST_PAGE_CHARS: Final = 4_000_000
"""Maximum size of a page's contents, exceeded by at most one entry, so that replies stay a few megabytes."""
SWEEP_STEP: Final = 100
"""Maximum number of entries removed in one transaction, during which saves wait."""
ErasureListener: TypeAlias = Callable[[Sequence[str]], None]
"""Called with the ids of forgotten or expired entries once they are gone."""


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
    ) -> Saved:
        """Save an entry. A live entry with the same (namespace, collection, key) gets a new version.

        With `embed`, create jobs for every enabled space. `revision`, if given, builds the draft if such an
        entry exists. Equal content and attributes change nothing. The trust of the new version is the lower
        of the old one and the draft's.

        Raises:
            VersionConflict: `if_version` is not the live version (0 means: must not exist).
            IdempotencyKeyReused: the key was used with another digest.
            StorageFull, StorageFailed: nothing was saved.
        """
        ...

    async def revise(
        self,
        entry_id: str,
        revision: Revision,
        *,
        embed: bool,
        if_version: int | None = None,
        principal: int | None = None,
    ) -> Saved:
        """Save what `revision(live entry, None)` makes of an entry, on behalf of `principal`.

        Raises:
            NotFound: no live entry has this id.
            VersionConflict: `if_version` is not its live version.
        """
        ...

    async def get(self, entry_id: str, version: int | None = None) -> Entry | None:
        """Return the live version, or the given one; None if there is none, or it has expired."""
        ...

    async def namespace_of(self, entry_id: str) -> str | None:
        """Return the namespace of a live entry, even a damaged one, which can be forgotten; else None."""
        ...

    async def find(self, namespace: str, collection: str, key: str) -> Entry | None: ...

    async def history(
        self, entry_id: str, *, limit: int, before: int | None = None
    ) -> tuple[list[Entry], int | None]:
        """Return a page of versions, newest first, and the `before` of the next page.

        Empty if the entry is unknown. A page can end early, like that of `list_entries`.
        """
        ...

    async def list_entries(
        self, wanted: Filter, *, limit: int, before: int | None = None, with_content: bool = True
    ) -> tuple[list[Entry], int | None]:
        """Return a page of live entries, newest first, and the cursor of the next page.

        It ends early after `MOST_PAGE_CHARS` of content. Without content, `Entry.content` is empty.
        """
        ...

    async def delete(
        self, entry_id: str, *, if_version: int | None = None, principal: int | None = None
    ) -> int:
        """Delete entry, versions, chunks, words, vectors and jobs at once; return the number of versions.

        The deletion by `principal` is recorded without key and content; None is the daemon itself.

        Raises:
            NotFound, VersionConflict.
        """
        ...

    async def sweep(self, *, limit: int = SWEEP_STEP) -> int:
        """Remove up to `limit` expired entries, and old idempotency keys; return how many entries."""
        ...

    def on_erased(self, listener: ErasureListener) -> None:
        """Notify a listener of each removed entry, so that it keeps nothing of it.

        It is called in the caller's event loop and must not raise.
        """
        ...

    async def export_page(self, selection: ExportSelection, *, after: int, limit: int) -> ExportPage:
        """Return live entries by their last change, oldest first; `after` is 0, then a page's `next`.

        An entry that changes in the meantime appears again at the end; none is left out.
        """
        ...

    async def import_entry(
        self,
        draft: Draft,
        *,
        entry_id: str,
        created: int,
        updated: int,
        embed: bool,
        dry_run: bool = False,
        include_forgotten: bool = False,
    ) -> Saved:
        """Save an entry under an id, with its times, unless the same or a newer version exists.

        `dry_run`: only return what would be done.

        Raises:
            Forgotten: the id was forgotten, and `include_forgotten` is false.
            InvalidInput: the id belongs to another entry.
            StorageFull, StorageFailed: nothing was saved.
        """
        ...
