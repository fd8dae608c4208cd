"""The model's answers: the configured text, tool calls, or an echo."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agentctx_testing.fake_provider.conditions import RequestConditions

ECHO_CHARACTERS = 80
_ARGUMENT_PIECE = 8


class ToolCall(BaseModel):
    """A call of one of the client's functions. Without an `id`, it is given one derived from the request.

    `namespace` is the group that the function belongs to; only the Responses API has such groups.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    id: str = ""
    namespace: str = ""

    @property
    def arguments_json(self) -> str:
        return json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))


class FakeAnswer(RequestConditions):
    """The answer to every matching request: a text, tool calls, or the text followed by the calls.

    A tool loop takes two answers, the one for the later round first:

        Answer(text="It is raining.", contains="rain, 9 degrees"),
        Answer(calls=[ToolCall(name="weather", arguments={"city": "Oslo"})])
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


def echo(last_text: str, images: int) -> FakeAnswer:
    """Return the answer to a request for which nothing is scripted."""
    reply = f"You said: {last_text[:ECHO_CHARACTERS]}"
    return FakeAnswer(text=f"{reply} (images: {images})" if images else reply)


def text_pieces(text: str) -> list[str]:
    """Split the text into words, as a stream delivers them; joined, they give the text again."""
    return re.findall(r"\s*\S+|\s+$", text)


def argument_pieces(call: ToolCall) -> list[str]:
    """Split the JSON of the arguments into fragments that are not valid JSON by themselves."""
    whole = call.arguments_json
    return [whole[at : at + _ARGUMENT_PIECE] for at in range(0, len(whole), _ARGUMENT_PIECE)]
