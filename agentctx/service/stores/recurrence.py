"""Saves a learning, or counts it in the one whose error it repeats."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from agentctx.errors import KeyTaken, VersionConflict
from agentctx.service.stores.collection_rules import key_of_error, learning_key
from agentctx.storage.entries import EntryStorage
from agentctx.storage.records import Draft, Entry, IdempotencyKey, Revision, SaveOutcome


async def save_learning(
    entries: EntryStorage,
    draft: Draft,
    *,
    embed: bool,
    if_version: int | None,
    idempotency: IdempotencyKey | None,
    revision: Revision,
) -> SaveOutcome:
    """Save a learning under its own key or, as a repetition, over the one of the same error."""
    save = partial(entries.save, embed=embed, idempotency=idempotency, revision=revision)
    repeated = await _find_repeated(entries, draft)
    if repeated is not None and repeated.key != draft.key:
        version = repeated.version if if_version is None else if_version
        try:
            return await save(replace(draft, key=repeated.key), if_version=version)
        except (KeyTaken, VersionConflict):
            # It was changed or removed since it was found.
            if if_version is not None:
                raise
    return await save(draft, if_version=if_version)


async def _find_repeated(entries: EntryStorage, draft: Draft) -> Entry | None:
    """Find the learning with the same fix or, if one of the two has none, of the same error."""
    error = key_of_error(draft.attributes)
    find = partial(entries.find, draft.namespace, draft.collection)
    if draft.key == error:
        return await entries.find_by_prefix(draft.namespace, draft.collection, error)
    with_fix = await find(str(draft.key))
    if with_fix is None and (known := await find(error)):
        fix = known.attributes.get("fix")
        return known if fix is None or learning_key({**draft.attributes, "fix": fix}) == draft.key else None
    return with_fix
