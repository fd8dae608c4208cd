"""Removes deleted text from the files with a checkpoint after its deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

import structlog

from agentctx.errors import DeadlineExceeded, StorageCorrupt, StorageFailed
from agentctx.storage.entries import ErasureListener
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.wipe import wipe_gaps
from agentctx.storage.file.writer import Writer
from agentctx.storage.sqlite.search import residue, word_index
from agentctx.storage.sqlite.search.residue import PageKey

log = structlog.get_logger("agentctx.storage")

PATIENCE_MS: Final = 250
"""How long to wait for readers, because writes wait meanwhile."""
LOOK_WAIT_S: Final = 1.0
"""How long to wait for a free reader: the words of the index must not delay the text itself further."""


class _OnCancel(AbstractContextManager[None]):
    """Calls a function if its block is cancelled."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            self._then()


class Tidier:
    """Knows whether something was deleted since the WAL was last emptied, and empties it.

    `secure_delete` overwrites deleted data, but in the WAL: until that is moved into the database and
    emptied, both files still contain the text. Residue it misses is removed before (`search.residue`) or
    wiped afterwards (`file.wipe`).
    """

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self.listeners: list[ErasureListener] = []
        self._writer = writer
        self._readers = readers
        self._wiping = asyncio.Lock()
        self._is_due = asyncio.Event()
        # A daemon that was killed may have left deleted text in the WAL.
        self._is_due.set()

    def note_deletion(self, entry_ids: Sequence[str] = ()) -> None:
        """Note that deleted data is still in the files; the given entries are gone permanently."""
        self._is_due.set()
        if entry_ids:
            for listener in self.listeners:
                listener(entry_ids)

    def note_if_cancelled(self, entry_ids: Sequence[str] = ()) -> AbstractContextManager[None]:
        """Note a deletion if the caller of an erasing write is cancelled, since the write still runs."""
        return _OnCancel(partial(self.note_deletion, entry_ids))

    def note_quarantined(self, entry_ids: Sequence[str]) -> None:
        """Note that answers must exclude these entries; nothing of them is deleted yet."""
        for listener in self.listeners:
            listener(entry_ids)

    async def due(self) -> None:
        """Wait until there is something to tidy."""
        await self._is_due.wait()

    async def wait_until_wiped(self) -> None:
        """Wait until wiping has finished, which closes the database again and again."""
        async with self._wiping:
            return

    async def tidy(self) -> bool:
        """Empty the WAL if anything was deleted; return False if readers blocked it, or there is more by now.

        Raises:
            StorageFailed: SQLite or the disk failed. Tidying stays due.
        """
        if self._is_due.is_set():
            self._is_due.clear()  # a deletion in the meantime sets it again
            is_done = False
            try:
                is_done = await self._purge()
            finally:
                if not is_done:
                    self._is_due.set()
        return not self._is_due.is_set()

    async def _purge(self) -> bool:
        """Remove the text from the files, even if its words cannot be removed from the index yet."""
        problem = await self._problem_of_words()
        if not await self._writer.checkpoint(patience_ms=PATIENCE_MS):
            return False
        await self._wipe()
        if problem is not None:
            raise problem
        return True

    async def _problem_of_words(self) -> StorageFailed | None:
        """Return None for a damaged index too: the rebuild that it needs leaves nothing behind."""
        try:
            for table in word_index.TABLES:
                await self._remove_drained_pages(table)
                await self._replace_keys(table)
        except StorageCorrupt as error:
            log.warning("index_of_words_not_tidied", reason=error.message)
        except DeadlineExceeded as error:
            return StorageFailed(error.message, hint=error.hint)
        except StorageFailed as error:
            return error
        return None

    async def _remove_drained_pages(self, table: str) -> None:
        look = partial(residue.has_drained_pages, table=table)
        if await self._readers.run(look, wait_s=LOOK_WAIT_S):
            remove = partial(residue.remove_drained_pages, table=table)
            while await self._writer.run(remove):
                pass

    async def _replace_keys(self, table: str) -> None:
        """Find keys with the readers, so that a save waits only while some are replaced."""
        following: PageKey | None = residue.FIRST
        while following is not None:
            find = partial(residue.find_stale_keys, table=table, after=following)
            stale, following = await self._readers.run(find, wait_s=LOOK_WAIT_S)
            if stale:
                replace = partial(residue.replace_keys, table=table, keys=stale)
                await self._writer.run(replace)

    async def _wipe(self) -> None:
        """Wipe in steps, between which other work continues, because a large file takes long."""
        page: int | None = 1
        async with self._wiping:
            while page is not None:
                step = partial(wipe_gaps, first=page)
                page = (await self._writer.while_closed(step, patience_ms=PATIENCE_MS)).next_page
