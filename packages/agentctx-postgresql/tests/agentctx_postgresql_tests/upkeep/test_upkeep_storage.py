"""Words that were written by earlier rules are rebuilt once."""

from __future__ import annotations

from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_testing.drafts import ALL, keyless


async def test_words_of_earlier_rules_are_rebuilt_at_a_start(storage: PostgresqlStorage) -> None:
    await storage.entries.save(keyless("a \ufb01nance report \U0001f680"), embed=False)
    await storage.db.write(
        lambda conn: conn.execute("UPDATE chunk_words SET words = 'a:1 \ufb01nance:2 report:3'::tsvector")
    )
    assert await storage.upkeep.check_words()
    assert await storage.upkeep.resume_words() == 1
    assert await storage.upkeep.check_words() is None
    assert await storage.upkeep.resume_words() is None
    for question in ("finance", "\U0001f680"):
        assert len((await storage.search.by_words(question, ALL, 5)).hits) == 1, question
