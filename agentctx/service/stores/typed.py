"""A store for each sort of memory: knowledge, observations with reflections, and learnings.

Further fields of an entry are keyword arguments, which `fields.py` names and validates.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from agentctx.names import normalised
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.storage.records import Entry, SaveOutcome
from agentctx.wire import DEFAULT_NAMESPACE


class KnowledgeStore(EntryStore):
    """Stores knowledge. Saving an existing key adds a version; the old ones stay readable in its history."""

    built_in = ("knowledge",)

    async def save(
        self, key: str, content: str, *, context: SaveContext | None = None, **fields: Any
    ) -> SaveOutcome:
        """Save knowledge under `key`. Saving equal content and attributes changes nothing.

        Raises:
            InvalidInput: a field is empty, too long or of the wrong type.
            VersionConflict: `context.if_version` is not the live version.
        """
        values = {"key": key, "content": content, **fields}
        return await self.save_fields("knowledge", values, context or SaveContext())

    async def find(self, key: str, *, namespace: str = DEFAULT_NAMESPACE) -> Entry | None:
        """Return the live entry with this key, or None."""
        find = partial(self._entries.find, namespace, "knowledge")
        return await find(key) or await find(normalised(key))


class MemoryStore(EntryStore):
    """Stores observations and reflections; every save makes a new entry."""

    built_in = ("observation", "reflection")

    async def save_observation(
        self, session: str, content: str, *, context: SaveContext | None = None, **fields: Any
    ) -> SaveOutcome:
        """Save an observation of a session; the indexes give the range of messages it was made from."""
        context = replace(context or SaveContext(), session=session)
        return await self.save_fields("observation", {"content": content, **fields}, context)

    async def save_reflection(
        self, session: str, content: str, *, context: SaveContext | None = None, **fields: Any
    ) -> SaveOutcome:
        """Save a reflection on observations; generation 2 reflects on reflections, and so on."""
        context = replace(context or SaveContext(), session=session)
        return await self.save_fields("reflection", {"content": content, **fields}, context)


class LearningStore(EntryStore):
    """Stores learnings. A recurring error of the same trigger and fix is counted in its existing entry."""

    built_in = ("learning",)

    async def save(self, trigger: str, *, context: SaveContext | None = None, **fields: Any) -> SaveOutcome:
        """Save what an error taught. For a known error and fix, count the occurrence and add the fields."""
        return await self.save_fields("learning", {"trigger": trigger, **fields}, context or SaveContext())
