"""Knowledge: rules, definitions, preferences, facts, patterns and corrections, each under a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentctx.config.schema import LimitSettings
from agentctx.redaction.redactor import Redactor, no_redaction
from agentctx.screening.screener import Screener, no_screening
from agentctx.storage.base import Storage
from agentctx.storage.records import Entry, Saved
from agentctx.stores.base import EmbedCallback, EntryStore, SaveContext
from agentctx.stores.fields import KnowledgeCategory
from agentctx.stores.kinds import KINDS
from agentctx.times import Clock
from agentctx.wire import DEFAULT_NAMESPACE


class KnowledgeStore(EntryStore):
    """Stores knowledge. Saving an existing key adds a version; the old ones stay readable in its history."""

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
        kinds = {"knowledge": KINDS["knowledge"]}
        super().__init__(
            storage, kinds, on_saved, clock=clock, limits=limits, redactor=redactor, screener=screener
        )

    async def save(
        self,
        key: str,
        content: str,
        *,
        category: KnowledgeCategory = "fact",
        tags: Sequence[str] = (),
        cues: Sequence[str] = (),
        source: str | None = None,
        context: SaveContext | None = None,
    ) -> Saved:
        """Save knowledge under `key`. Saving equal content and attributes changes nothing.

        Raises:
            InvalidInput: a field is empty, too long or of the wrong type.
            VersionConflict: `context.if_version` is not the live version.
        """
        values: dict[str, Any] = {
            "key": key,
            "content": content,
            "category": category,
            "tags": list(tags),
            "cues": list(cues),
        }
        if source is not None:
            values["source"] = source
        return await self.save_fields("knowledge", values, context or SaveContext())

    async def find(self, key: str, *, namespace: str = DEFAULT_NAMESPACE) -> Entry | None:
        """Return the live entry with this key, or None."""
        return await self._entries.find(namespace, "knowledge", key)
