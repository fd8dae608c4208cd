"""All collections in one store."""

from __future__ import annotations

import pytest

from agentctx.config.schema import CollectionSettings
from agentctx.errors import InvalidInput, UnknownCollection
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_testing.drafts import START_MS, ManualClock
from tests.service.stores.conftest import EmbedCalls


@pytest.fixture
def stores(storage: SqliteStorage, embed_calls: EmbedCalls, clock: ManualClock) -> EntryStore:
    declared = {"decisions": CollectionSettings(description="why we did it", ttl="1h")}
    return EntryStore(storage, embed_calls, clock=clock, declared=declared)


async def test_an_unknown_collection_lists_the_known_ones(stores: EntryStore) -> None:
    with pytest.raises(UnknownCollection) as caught:
        await stores.save_fields("gossip", {"content": "x"}, SaveContext())
    for name in ("knowledge", "observation", "reflection", "learning", "decisions"):
        assert name in caught.value.hint


async def test_a_declared_collection_applies_its_ttl(stores: EntryStore, embed_calls: EmbedCalls) -> None:
    saved = await stores.save_fields(
        "decisions", {"content": "We chose SQLite.", "tags": ["db"]}, SaveContext()
    )
    entry = await stores.get(saved.id)
    assert (entry.collection, entry.expires) == ("decisions", START_MS + 3_600_000)
    assert embed_calls.texts == ["db\nWe chose SQLite."]
    lasting = await stores.save_fields("decisions", {"content": "x"}, SaveContext(ttl="2h"))
    assert (await stores.get(lasting.id)).expires == START_MS + 7_200_000
    with pytest.raises(InvalidInput):
        await stores.save_fields("decisions", {"content": "x", "category": "rule"}, SaveContext())


async def test_a_declared_collection_has_keys_and_versions(stores: EntryStore) -> None:
    first = await stores.save_fields("decisions", {"content": "one", "key": "db"}, SaveContext())
    second = await stores.save_fields("decisions", {"content": "two", "key": "db"}, SaveContext())
    assert (second.id, second.version) == (first.id, 2)


async def test_a_repeated_learning_is_counted_through_the_registry_too(stores: EntryStore) -> None:
    fields = {"trigger": "t", "error_pattern": "e"}
    first = await stores.save_fields("learning", fields, SaveContext())
    await stores.save_fields("learning", fields, SaveContext())
    assert (await stores.get(first.id)).attributes["occurrences"] == 2


async def test_an_edit_clears_optional_fields(stores: EntryStore) -> None:
    saved = await stores.save_fields(
        "learning", {"trigger": "t", "error_pattern": "e", "fix": "f", "tags": ["a"]}, SaveContext()
    )
    kept = saved.id
    await stores.edit(kept, {"source": "s", "category": "timeout"}, clear=["fix", "tags", "diagnosis"])
    entry = await stores.get(kept)
    assert entry.content == "t\nError: e"
    assert "fix" not in entry.attributes
    assert (entry.attributes["source"], entry.attributes["tags"]) == ("s", [])
    await stores.edit(kept, {}, clear=["category"])
    assert (await stores.get(kept)).attributes["category"] == "general"


async def test_an_edit_sets_and_clears_the_ttl(stores: EntryStore) -> None:
    context = SaveContext(ttl="1h")
    kept = (await stores.save_fields("knowledge", {"key": "k", "content": "c"}, context)).id
    await stores.edit(kept, {"source": "s"}, ttl="2h")
    expires = (await stores.get(kept)).expires
    await stores.edit(kept, {"content": "d"})
    assert (await stores.get(kept)).expires == expires is not None
    with pytest.raises(InvalidInput, match="both sets and clears ttl"):
        await stores.edit(kept, {}, clear=["ttl"], ttl="2h")
    await stores.edit(kept, {}, clear=["ttl"])
    entry = await stores.get(kept)
    assert (entry.content, entry.attributes["source"], entry.expires) == ("d", "s", None)


@pytest.mark.parametrize(
    ("changes", "clear", "problem"),
    [
        ({}, "trigger", "it must have trigger"),
        ({}, "content", "content is not a field of it"),
        ({"fix": "g"}, "fix", "both sets and clears fix"),
    ],
)
async def test_required_fields_cannot_be_cleared(
    stores: EntryStore, changes: dict[str, object], clear: str, problem: str
) -> None:
    saved = await stores.save_fields(
        "learning", {"trigger": "t", "error_pattern": "e", "fix": "f"}, SaveContext()
    )
    with pytest.raises(InvalidInput, match=problem):
        await stores.edit(saved.id, changes, clear=[clear])
    assert (await stores.get(saved.id)).version == 1
