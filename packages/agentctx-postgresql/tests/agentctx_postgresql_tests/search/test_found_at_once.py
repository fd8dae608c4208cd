"""What was just saved is found by its words, on PostgreSQL."""

from __future__ import annotations

from agentctx.storage.base import Storage
from tests.amount import examples
from tests.service.rag.found_at_once import check, opened_space


async def test_an_entry_is_found_by_its_unique_word_at_once(storage: Storage) -> None:
    space = await opened_space(storage)
    broken = [each for seed in range(examples(60)) for each in await check(storage, space, seed)]
    assert not broken, "\n".join(broken[:20])
