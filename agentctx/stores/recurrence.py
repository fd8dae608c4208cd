"""Saves a learning, or counts it in the one whose error it repeats."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from agentctx.errors import KeyTaken, VersionConflict
from agentctx.storage.entries import EntryStorage
from agentctx.storage.records import Draft, Entry, IdempotencyKey, Revision, Saved
from agentctx.storage.search import Filter
from agentctx.stores.learning import recurring

MAX_COMPARED: Final = 64
"""How many learnings of a trigger, the last changed first, are compared with one whose key is new."""


async def save_learning(
    entries: EntryStorage,
    draft: Draft,
    *,
    embed: bool,
    if_version: int | None,
    idempotency: IdempotencyKey | None,
    revision: Revision | None,
) -> Saved:
    """Save a learning under its own key or, as a repetition, over the one that `recurring` names."""
    save = partial(entries.save, embed=embed, idempotency=idempotency, revision=revision)
    found = await _find(entries, draft)
    if found is not None and found.key != draft.key:
        version = found.version if if_version is None else if_version
        try:
            return await save(replace(draft, key=found.key), if_version=version)
        except (KeyTaken, VersionConflict):
            # It was changed or removed since it was found.
            if if_version is not None:
                raise
    return await save(draft, if_version=if_version)


async def _find(entries: EntryStorage, draft: Draft) -> Entry | None:
    key = str(draft.key)
    if found := await entries.find(draft.namespace, draft.collection, key):
        return found
    of_trigger = Filter(
        namespace=draft.namespace,
        collections=(draft.collection,),
        key_prefix=key[: key.rindex("#") + 1],
        with_quarantined=True,
    )
    known, _ = await entries.list_entries(of_trigger, limit=MAX_COMPARED)
    return recurring(known, draft.attributes)
