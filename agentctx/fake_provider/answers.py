"""What the model says: the configured text, tool calls, or an echo."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agentctx.fake_provider.conditions import When

ECHO_CHARACTERS = 80
_ARGUMENT_PIECE = 8


class ToolCall(BaseModel):
    """A call of one of the client's functions. Without an `id` it gets one that depends on the request.

    `namespace` is the group of functions it belongs to, which Responses alone knows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    id: str = ""
    namespace: str = ""

    @property
    def arguments_json(self) -> str:
        return json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))


class FakeAnswer(When):
    """What is said in reply to the requests that fit: a text, calls, or the text and then the calls.

    A tool loop is two of them, the later round first:

        Answer(text="It is raining.", contains="rain, 9 degrees"),
        Answer(calls=[ToolCall(name="weather", arguments={"city": "Oslo"})])
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


def echo(last_text: str, images: int) -> FakeAnswer:
    """What is said where nothing is scripted."""
    said = f"You said: {last_text[:ECHO_CHARACTERS]}"
    return FakeAnswer(text=f"{said} (images: {images})" if images else said)


def text_pieces(text: str) -> list[str]:
    """The text word by word, as a stream carries it; together they are the text."""
    return re.findall(r"\s*\S+|\s+$", text)


def argument_pieces(call: ToolCall) -> list[str]:
    """The JSON of the arguments in pieces that are none."""
    whole = call.arguments_json
    return [whole[at : at + _ARGUMENT_PIECE] for at in range(0, len(whole), _ARGUMENT_PIECE)]
