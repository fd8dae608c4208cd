"""Empties the WAL and the readers after a deletion, because they still contain the text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from agentctx.storage.file.readers import Readers
from agentctx.storage.file.writer import Writer
from agentctx.storage.steps import ErasureListener

PATIENCE_MS: Final = 250
"""How long to wait for readers, because writes wait meanwhile."""


class Tidier:
    """Knows whether something was deleted since the WAL was last emptied, and empties it.

    `secure_delete` overwrites deleted data, but in the WAL: until that is moved into the database and
    emptied, both files still contain the text.
    """

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self.listeners: list[ErasureListener] = []
        self._writer, self._readers = writer, readers
        self._is_due = asyncio.Event()
        # A daemon that was killed may have left deleted text in the WAL.
        self._is_due.set()

    def note_deletion(self, entry_ids: Sequence[str] = ()) -> None:
        """Note that deleted data is still in the files; the given entries are gone permanently."""
        self._is_due.set()
        if entry_ids:
            for listener in self.listeners:
                listener(entry_ids)

    def note_quarantined(self, entry_ids: Sequence[str]) -> None:
        """Note that answers must exclude these entries; nothing of them is deleted yet."""
        for listener in self.listeners:
            listener(entry_ids)

    async def due(self) -> None:
        """Wait until there is something to tidy."""
        await self._is_due.wait()

    async def tidy(self) -> bool:
        """Empty the WAL if anything was deleted; return False if readers blocked it, or there is more by now.

        Raises:
            StorageFailed: SQLite or the disk failed. Tidying stays due.
        """
        if self._is_due.is_set():
            self._is_due.clear()  # a deletion in the meantime sets it again
            is_done = False
            try:
                is_done = await self._writer.checkpoint(patience_ms=PATIENCE_MS)
                if is_done:
                    await self._readers.drop_results()
            finally:
                if not is_done:
                    self._is_due.set()
        return not self._is_due.is_set()
