"""What a question remembers of its words."""

from __future__ import annotations

import pytest

from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.search import memory_search
from agentctx.storage.sqlite.search.memory_search import TokenHashes


async def test_words_are_the_same_after_others_were_forgotten(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_search, "MAX_REMEMBERED", 2)
    hashes = TokenHashes()
    for texts in (["running", "config.yaml", "apples"], ["apples", "run"], ["running", "pears"]):
        found = await storage.db.read(hashes.of, texts=texts)
        assert found == await storage.db.read(TokenHashes().of, texts=texts)
    assert found[0] == (hash("run"),)
