"""A conversation as observations: a prompt and its answers are parts of one turn. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agentctx.wire import TurnPart
from agentctx_importers.records import Record


class Message(NamedTuple):
    """What one of the two said. Times are in milliseconds; None: unknown."""

    id: str
    part: TurnPart
    text: str
    created: int | None


def messages_of(
    agent: str,
    conversation: str,
    title: str | None,
    source: str,
    created: int | None,
    messages: Iterable[Message],
) -> Iterator[Record]:
    """Yield an observation for each message with a text; one without a time is as old as the one before."""
    turn, time = "", created
    for message in messages:
        if message.part == "prompt" or not turn:
            turn = message.id
        time = message.created or time
        if message.text.strip():
            yield Record(
                id=f"{conversation}/{message.id}",
                collection="observation",
                content=message.text,
                tags=(agent, *([title] if title else [])),
                session=conversation,
                agent=agent,
                source=source,
                created=time,
                updated=time,
                fields={"turn": turn[:256], "part": message.part},
            )
