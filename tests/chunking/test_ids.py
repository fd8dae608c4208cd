import re

from agentctx.chunking import generate_chunk_id, generate_pa_chunk_id


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
