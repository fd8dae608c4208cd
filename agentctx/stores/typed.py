"""Stores with a typed method for each built-in collection: knowledge, memory, learnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentctx.storage.records import Entry, Saved
from agentctx.stores.base import EntryStore, SaveContext
from agentctx.stores.fields import KnowledgeCategory, LearningCategory
from agentctx.wire import DEFAULT_NAMESPACE


class KnowledgeStore(EntryStore):
    """Stores knowledge. Saving an existing key adds a version; the old ones stay readable in its history."""

    built_in = ("knowledge",)

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
        values = {
            "key": key,
            "content": content,
            "category": category,
            "tags": list(tags),
            "cues": list(cues),
            "source": source,
        }
        return await self.save_fields("knowledge", _given(values), context or SaveContext())

    async def find(self, key: str, *, namespace: str = DEFAULT_NAMESPACE) -> Entry | None:
        """Return the live entry with this key, or None."""
        return await self._entries.find(namespace, "knowledge", key)


class MemoryStore(EntryStore):
    """Stores observations and reflections; every save makes a new entry."""

    built_in = ("observation", "reflection")

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
        context = replace(context or SaveContext(), session=session)
        return await self.save_fields("observation", _given(values), context)

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
        context = replace(context or SaveContext(), session=session)
        return await self.save_fields("reflection", _given(values), context)


class LearningStore(EntryStore):
    """Stores learnings. A recurring error of the same trigger is counted in its existing entry."""

    built_in = ("learning",)

    async def save(
        self,
        trigger: str,
        *,
        error_pattern: str | None = None,
        diagnosis: str | None = None,
        fix: str | None = None,
        category: LearningCategory = "general",
        tags: Sequence[str] = (),
        cues: Sequence[str] = (),
        source: str | None = None,
        context: SaveContext | None = None,
    ) -> Saved:
        """Save what an error taught. For a known error, count the occurrence and add the given fields."""
        values = {
            "trigger": trigger,
            "error_pattern": error_pattern,
            "diagnosis": diagnosis,
            "fix": fix,
            "category": category,
            "tags": list(tags),
            "cues": list(cues),
            "source": source,
        }
        return await self.save_fields("learning", _given(values), context or SaveContext())


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
