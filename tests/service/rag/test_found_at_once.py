"""What was just saved is found by its words, whatever else is in the memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentctx.embedding.providers.fake import FakeProvider
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.wire import ContextRequest, SaveRequest, SearchRequest
from agentctx_testing.drafts import ManualClock
from tests.amount import examples
from tests.running_core import ME, embedded, running_core, save
from tests.service.rag.found_at_once import check, opened_space


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=ManualClock())
    yield opened
    await opened.close()


async def test_an_entry_is_found_by_its_unique_word_at_once(storage: SqliteStorage) -> None:
    space = await opened_space(storage)
    broken = [each for seed in range(examples(160)) for each in await check(storage, space, seed)]
    assert not broken, "\n".join(broken[:20])


async def test_search_and_hooks_find_it_while_the_queue_is_busy(tmp_path: Path) -> None:
    provider, word = FakeProvider(dimension=64), "ERR_7000_TLS_HANDSHAKE"
    async with running_core(tmp_path, provider) as core:
        turns = [f"turn {number}: the server clock is {number} seconds late" for number in range(60)]
        requests = [SaveRequest(collection="observation", session="s", content=turn) for turn in turns]
        await core.entries.save(requests, ME)
        await embedded(core)
        provider.hold(queries=False)
        saved = await save(core, key="tls", content=f"{word} means that the clock is wrong.")
        found = await core.questions.search(SearchRequest(query=word, limit=5), ME)
        nearest = await core.questions.search(SearchRequest(query=word, limit=5, order="distance"), ME)
        given = await core.questions.context(
            ContextRequest(query=f"why {word}?", position="tail", conversation="c"), ME
        )
        provider.release()
    assert (found.results[0].id, found.degraded) == (saved.id, None)
    assert nearest.results[-1].id == saved.id
    assert given.results[0].id == saved.id
