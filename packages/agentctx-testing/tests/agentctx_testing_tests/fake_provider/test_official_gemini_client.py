"""Google's package accepts the fake's chats."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentctx_testing.fake_provider.answers import FakeAnswer, ToolCall
from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.serving import FakeProviderServer

genai = pytest.importorskip("google.genai")

GEMINI = "gemini-2.5-flash"
ECHO = "You said: hello there"
OSLO = ToolCall(name="weather", arguments={"city": "Oslo", "days": [1, 2]})
ROME = ToolCall(name="weather", arguments={"city": "Røm"})
IN_PARALLEL = FakeAnswer(text="Let me look.", calls=(OSLO, ROME))
DONE = FakeAnswer(text="Rain in both.", contains="9 degrees")

# Where aiohttp is installed, the package inherits from a class of it that warns of that.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")


@pytest.fixture
async def gemini(server: FakeProviderServer) -> AsyncIterator[Any]:
    options = genai.types.HttpOptions(base_url=server.url + "/google")
    async with genai.Client(api_key="k", http_options=options).aio as client:
        yield client


async def test_a_text(gemini: Any) -> None:
    reply = await gemini.models.generate_content(model=GEMINI, contents="hello there")
    assert reply.text == ECHO
    assert reply.usage_metadata.prompt_token_count == 4
    assert reply.candidates[0].finish_reason == "STOP"


async def test_a_stream(gemini: Any) -> None:
    pieces = [
        piece
        async for piece in await gemini.models.generate_content_stream(model=GEMINI, contents="hello there")
    ]
    assert "".join(piece.text for piece in pieces) == ECHO
    assert len(pieces) == 4


async def test_a_loop_over_parallel_calls(server: FakeProviderServer, gemini: Any) -> None:
    server.answer(DONE, IN_PARALLEL)
    reply = await gemini.models.generate_content(model=GEMINI, contents="hello there")
    assert [call.args for call in reply.function_calls] == [OSLO.arguments, ROME.arguments]
    results = [
        genai.types.Part.from_function_response(name=call.name, response={"result": "9 degrees"})
        for call in reply.function_calls
    ]
    contents = [
        genai.types.UserContent("hello there"),
        reply.candidates[0].content,
        genai.types.UserContent(results),
    ]
    again = await gemini.models.generate_content(model=GEMINI, contents=contents)
    assert again.text == "Rain in both."


async def test_an_image(gemini: Any) -> None:
    image = genai.types.Part.from_bytes(data=b"png", mime_type="image/png")
    reply = await gemini.models.generate_content(model=GEMINI, contents=["what is this?", image])
    assert reply.text == "You said: what is this? (images: 1)"


async def test_its_own_errors(server: FakeProviderServer, gemini: Any) -> None:
    server.script(HttpFault.with_status(429, message="slow down"))
    with pytest.raises(genai.errors.ClientError, match="slow down"):
        await gemini.models.generate_content(model=GEMINI, contents="a")
