import re

from agentctx.chunking import (
    Document,
    RecursiveCharacterChunker,
    generate_chunk_id,
    generate_pa_chunk_id,
)
from agentctx.chunking.ids import chunk_id_at


def test_chunk_id_generation() -> None:
    # The first hex digits of the SHA-256 of "hello world".
    assert generate_chunk_id("hello world") == "chunk_b94d27b9934d"
    assert generate_pa_chunk_id("hello world") == "pa_chunk_b94d27b9934d"
    assert re.fullmatch(r"chunk_[0-9a-f]{12}", generate_chunk_id(""))


def test_deterministic_chunk_ids() -> None:
    assert generate_chunk_id("hello world") == generate_chunk_id("hello world")
    assert generate_pa_chunk_id("hello world") == generate_pa_chunk_id("hello world")


def test_different_content_produces_different_ids() -> None:
    assert generate_chunk_id("hello") != generate_chunk_id("world")
    assert generate_pa_chunk_id("hello") != generate_pa_chunk_id("world")


def test_any_text_has_an_id() -> None:
    assert generate_chunk_id("naïve 记忆") != generate_chunk_id("naive 记忆")
    assert generate_chunk_id("\ud800") != generate_chunk_id("\ud801")


def test_equal_texts_at_two_places_have_two_ids() -> None:
    places = [("a.md", 0), ("a.md", 11), ("b.md", 0), ("1:b.md", 0), ("b.md", 1)]
    assert len({chunk_id_at(document, start, "same") for document, start in places}) == len(places)
    assert chunk_id_at("a.md", 0, "same").startswith(generate_pa_chunk_id("same"))
    assert chunk_id_at("a.md", 0, "one") != chunk_id_at("a.md", 0, "two")


def test_a_document_that_is_cut_again_has_the_same_ids() -> None:
    document = Document("a.md", "same text. " * 3)
    once, again = (RecursiveCharacterChunker(11, 0).chunk_with_positions(document) for _ in range(2))
    assert [chunk.id for chunk in once] == [chunk.id for chunk in again]
    assert len({chunk.id for chunk in once}) == 3
