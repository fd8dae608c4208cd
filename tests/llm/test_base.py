from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentctx.errors import InvalidInput
from agentctx.llm.base import FunctionModelAdapter


async def shout(messages: list[dict[str, Any]], *, mark: str = "!") -> str:
    return str(messages[-1]["content"]) + mark


async def spell(messages: list[dict[str, Any]]) -> AsyncIterator[str]:
    for letter in messages[-1]["content"]:
        yield letter


async def test_messages_and_parameters_are_its_arguments() -> None:
    model = FunctionModelAdapter(shout)
    messages = [{"role": "user", "content": "hi"}]
    assert await model.complete({"messages": messages, "mark": "?"}) == "hi?"
    assert await model.complete(messages) == "hi!"


async def test_it_streams_with_a_second_function() -> None:
    model = FunctionModelAdapter(shout, spell)
    assert [piece async for piece in model.stream([{"content": "hi"}])] == ["h", "i"]


async def test_unsupported_operations_are_reported() -> None:
    with pytest.raises(InvalidInput, match="does not stream"):
        FunctionModelAdapter(shout).stream([])
    with pytest.raises(InvalidInput, match="no messages"):
        await FunctionModelAdapter(shout).complete({"prompt": "hi"})
