from __future__ import annotations

from agentctx.llm.dialects.content import part_texts


def test_the_texts_of_a_content_are_bare_or_in_parts_of_their_kind() -> None:
    assert list(part_texts("bare", ("text",))) == ["bare"]
    parts = [
        "bare",
        {"type": "text", "text": "a part"},
        {"type": "image", "text": "not one"},
        {"type": "text"},
        7,
    ]
    assert list(part_texts(parts, ("text",))) == ["bare", "a part"]
