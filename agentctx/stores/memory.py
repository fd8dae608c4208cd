"""Memory: observations of a session, and reflections on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentctx.config.schema import LimitSettings
from agentctx.redaction.redactor import Redactor, no_redaction
from agentctx.screening.screener import Screener, no_screening
from agentctx.storage.base import Storage
from agentctx.storage.records import Saved
from agentctx.stores.base import EmbedCallback, EntryStore, SaveContext
from agentctx.stores.kinds import KINDS
from agentctx.times import Clock


class MemoryStore(EntryStore):
    """Stores observations and reflections; every save makes a new entry."""

    def __init__(
        self,
        storage: Storage,
        on_saved: EmbedCallback | None = None,
        *,
        clock: Clock,
        limits: LimitSettings | None = None,
        redactor: Redactor = no_redaction,
        screener: Screener = no_screening,
    ) -> None:
        kinds = {name: KINDS[name] for name in ("observation", "reflection")}
        super().__init__(
            storage, kinds, on_saved, clock=clock, limits=limits, redactor=redactor, screener=screener
        )

    async def save_observation(
        self,
        session: str,
        content: str,
        *,
        tags: Sequence[str] = (),
        cues: Sequence[str] = (),
        source: str | None = None,
        token_count: int | None = None,
        source_start_index: int | None = None,
        source_end_index: int | None = None,
        context: SaveContext | None = None,
    ) -> Saved:
        """Save an observation of a session; the indexes give the range of messages it was made from."""
        values = {
            "content": content,
            "tags": list(tags),
            "cues": list(cues),
            "source": source,
            "token_count": token_count,
            "source_start_index": source_start_index,
            "source_end_index": source_end_index,
        }
        return await self._save("observation", session, values, context)

    async def save_reflection(
        self,
        session: str,
        content: str,
        *,
        generation: int = 1,
        tags: Sequence[str] = (),
        cues: Sequence[str] = (),
        source: str | None = None,
        token_count: int | None = None,
        context: SaveContext | None = None,
    ) -> Saved:
        """Save a reflection on observations; generation 2 reflects on reflections, and so on."""
        values = {
            "content": content,
            "generation": generation,
            "tags": list(tags),
            "cues": list(cues),
            "source": source,
            "token_count": token_count,
        }
        return await self._save("reflection", session, values, context)

    async def _save(
        self, collection: str, session: str, values: dict[str, Any], context: SaveContext | None
    ) -> Saved:
        given = {name: value for name, value in values.items() if value is not None}
        return await self.save_fields(collection, given, replace(context or SaveContext(), session=session))
