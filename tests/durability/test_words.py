"""The check that entries are found by their own words notices those that are not."""

from __future__ import annotations

from pathlib import Path

from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_testing.drafts import keyless
from tests.durability.words import own_words, unfound, unfound_in, word_of


def test_each_text_has_a_word_of_its_own() -> None:
    words = {word_of(writer, number) for writer in range(20) for number in range(500)}
    assert len(words) == 10_000
    assert all(dict(own_words({"a": word, "b": "amber"})).get("a") == word for word in sorted(words)[::20])


def test_a_word_that_others_have_too_is_nobodys_own() -> None:
    assert dict(own_words({"a": "red apple 17", "b": "red pear", "c": "Red"})) == {"a": "apple", "b": "pear"}


async def test_an_entry_without_its_words_is_noticed(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.db")
    saved = [await storage.entries.save(keyless(text), embed=False) for text in ("red apple", "red pear")]
    assert await unfound_in(storage) == []
    texts = {saved[0].id: "cherry", saved[1].id: "red pear"}
    assert await unfound(storage, texts) == [
        f"words: {saved[1].id} is not the first that 'red' finds",
        f"words: {saved[0].id} is not found by 'cherry'",
    ]
    await storage.close()
