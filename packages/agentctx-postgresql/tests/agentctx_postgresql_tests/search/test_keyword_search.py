"""Keyword search in a large namespace, where only some of the matching chunks are scored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql.search import keyword_search, term_counts
from agentctx_testing.drafts import ALL, found_by_words, keyless, save


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyword_search, "SMALL_SCOPE", 5)
    monkeypatch.setattr(keyword_search, "MAX_CANDIDATES", 3)


async def filled(storage: PostgresqlStorage) -> list[str]:
    """Save ten entries that share a word, the last with a rare word as well; return their ids."""
    texts = [f"red {'pear ' * number}" for number in range(9)] + ["red and ochre"]
    return [
        (await save(storage, keyless(text, agent="one" if number == 3 else "many"))).id
        for number, text in enumerate(texts)
    ]


async def test_chunks_with_the_rarest_words_are_scored(storage: PostgresqlStorage) -> None:
    ids = await filled(storage)
    assert await found_by_words(storage, "red ochre") == ids[9:]
    assert set(await found_by_words(storage, "red")) == set(ids), "the rarest word is always searched"


async def test_chunks_that_pass_a_narrow_filter_are_scored_by_all_words(storage: PostgresqlStorage) -> None:
    ids = await filled(storage)
    assert await found_by_words(storage, "red ochre", replace(ALL, agent="one")) == [ids[3]]


async def test_counts_of_common_terms_come_from_the_statistics(
    storage: PostgresqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(storage)
    await storage.db.prepare(lambda conn: conn.execute("VACUUM ANALYZE chunk_words"))
    exact = (await storage.search.by_words("red pear ochre config.yaml", ALL, 5)).counts
    monkeypatch.setattr(term_counts, "MAX_COUNTED", 5)
    estimated = (await storage.search.by_words("red pear ochre config.yaml", ALL, 5)).counts
    assert estimated == exact
    assert estimated.counts == {"red": 10, "pear": 8, "ochre": 1, "config.yaml": 0}
