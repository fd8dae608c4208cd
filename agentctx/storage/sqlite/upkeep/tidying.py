"""When deleted text has left the files: with the checkpoint after its deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from agentctx.sqlite.wipe import wipe_gaps
from agentctx.sqlite.writer import Writer
from agentctx.storage.entries import ErasureListener

PATIENCE_MS: Final = 250
"""Writes wait while readers are waited for."""


class Tidying:
    """Knows whether something was deleted since the WAL was last emptied, and empties it.

    `secure_delete` overwrites what is deleted, but in the WAL: until that is moved into the database and
    emptied, both files still hold the text. What it misses is wiped then (`sqlite.wipe`).
    """

    def __init__(self, writer: Writer) -> None:
        self.listeners: list[ErasureListener] = []
        self._writer = writer
        self._wiping = asyncio.Lock()
        self._is_due = asyncio.Event()
        # A daemon that was killed may have left deleted text in the WAL.
        self._is_due.set()

    def note_deletion(self, entry_ids: Sequence[str] = ()) -> None:
        """Something is deleted and still in the files; these entries are gone permanently."""
        self._is_due.set()
        if entry_ids:
            for listener in self.listeners:
                listener(entry_ids)

    @contextmanager
    def noting_erasures(self, entry_ids: Sequence[str] = ()) -> Iterator[None]:
        """Note a deletion when the caller of a write that may erase something is cancelled: it still runs."""
        try:
            yield
        except asyncio.CancelledError:
            self.note_deletion(entry_ids)
            raise

    def note_held(self, entry_ids: Sequence[str]) -> None:
        """No answer may hold these entries any more; nothing of them is deleted yet."""
        for listener in self.listeners:
            listener(entry_ids)

    async def due(self) -> None:
        """Wait until there is something to tidy up."""
        await self._is_due.wait()

    async def wiped(self) -> None:
        """Wait while the gaps are wiped, for which the database is closed again and again."""
        async with self._wiping:
            return

    async def tidy(self) -> bool:
        """Empty the WAL if anything was deleted. False: readers were in the way, or there is more by now."""
        if self._is_due.is_set():
            self._is_due.clear()  # what is deleted while it runs sets it again
            is_done = False
            try:
                if await self._writer.checkpoint(patience_ms=PATIENCE_MS):
                    await self._wipe()
                    is_done = True
            finally:
                if not is_done:
                    self._is_due.set()
        return not self._is_due.is_set()

    async def _wipe(self) -> None:
        """In turns, between which the others work: no task waits for a whole large file."""
        page: int | None = 1
        async with self._wiping:
            while page is not None:
                turn = partial(wipe_gaps, first=page)
                page = (await self._writer.while_closed(turn, patience_ms=PATIENCE_MS)).next_page
