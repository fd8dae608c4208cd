"""Names in two cases, caches, thoughts."""

from __future__ import annotations

from typing import Any

from agentctx.llm.dialects.gemini import Gemini

DIALECT = Gemini()


def body(**fields: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], **fields}


def test_the_system_instruction_keeps_the_case_of_its_name() -> None:
    for name in ("systemInstruction", "system_instruction"):
        injected = DIALECT.inject_system(body(**{name: {"role": "user", "parts": [{"text": "s"}]}}), "block")
        assert injected == body(**{name: {"role": "user", "parts": [{"text": "s"}, {"text": "block"}]}})


def test_a_request_with_a_cache_must_not_have_a_system_instruction() -> None:
    for name in ("cachedContent", "cached_content"):
        asked = body(**{name: "cachedContents/1"})
        assert DIALECT.inject_system(asked, "block") is asked
        assert DIALECT.inject_after(asked, 0, "block") is not asked


def test_function_responses_in_snake_case_are_a_tool_round() -> None:
    asked = body()
    asked["contents"].append(
        {"role": "user", "parts": [{"function_response": {"name": "f", "response": {}}}]}
    )
    assert DIALECT.read(asked).is_tool_round


def test_thoughts_are_not_text() -> None:
    asked = body()
    asked["contents"].insert(0, {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "ho"}]})
    assert DIALECT.read(asked).texts == ["ho", "hi"]


def test_the_texts_of_a_functions_answer_are_its_strings() -> None:
    response = {"output": "found", "count": 3, "rows": ["deep"]}
    asked = body()
    asked["contents"].append(
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": response}}]}
    )
    assert DIALECT.read(asked).texts == ["hi", "found"]
