"""Where the traits of passages come from: columns, and the text of a row without them."""

from __future__ import annotations

from agentctx.storage.file.driver import Connection
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_testing.drafts import ALL, keyless, save, with_turns


async def test_a_chunk_of_an_earlier_release_has_the_traits_of_its_text(storage: SqliteStorage) -> None:
    for text in ("Ann: was it last May?", "a plain text"):
        await save(storage, keyless(text))
    chunks = [hit.chunk for hit in (await storage.search.by_words("last plain", ALL, 5)).hits]
    before = (await with_turns(storage, chunks, ALL, question="plain")).traits

    def forget_traits(connection: Connection) -> None:
        connection.execute("UPDATE chunks SET words = NULL, speaker = NULL, asks = NULL, times = NULL")

    await storage.db.write(forget_traits)
    assert len(before) == 2
    assert (await with_turns(storage, chunks, ALL, question="plain")).traits == before
