"""What a call asks for, and the body it goes out with. Pure: the adapter and the proxy act on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentctx.model_adapters.conversation import Conversation
from agentctx.model_adapters.dialects.base import Dialect, Reading, UserTurn
from agentctx.model_adapters.dialects.content import Body
from agentctx.wire.names import InjectionPosition

MOST_QUESTION_CHARS = 8_000
"""A pasted log is no better a question for being longer, and embedding it takes the call's time."""
_ELLIPSIS = "\n…\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done for one call."""

    reading: Reading
    question: str | None = None
    """What to retrieve for; None: nothing new is wanted."""
    turn: UserTurn | None = None
    """The user turn that is being answered; None where the body has none."""

    @property
    def turn_hash(self) -> str | None:
        return None if self.turn is None else self.turn.hash


def plan(dialect: Dialect, body: Body) -> Plan:
    """What a call asks for. In a tool round nothing; nor where the block would have no place."""
    reading = dialect.read(body)
    turn = reading.user_turns[-1] if reading.user_turns else None
    question = None if turn is None else reading.question
    return Plan(reading=reading, question=None if question is None else shortened(question), turn=turn)


def texts_present(planned: Plan, position: InjectionPosition, given: Conversation) -> list[str]:
    """What the model will read anyway, so that retrieval repeats none of it, in the order of the body.

    At the tail that includes the blocks that are given again; the one of the present turn is not among them,
    since it may be replaced.
    """
    if position == "system":
        return planned.reading.texts
    earlier = [block for name, block in given.blocks.items() if name != planned.turn_hash]
    return [*planned.reading.texts, *earlier]


def inject(
    dialect: Dialect,
    body: Body,
    *,
    position: InjectionPosition,
    planned: Plan,
    given: Conversation,
    new: str | None = None,
) -> Body:
    """The body that goes out.

    `given` are the blocks of earlier calls, `new` is what was retrieved for this one: None if nothing was
    asked or no answer came, empty if nothing is relevant. At the tail every earlier block stands where it
    stood, byte for byte. In the system prompt stands the block of the present turn alone. Without any block
    the very same object comes back.
    """
    if position == "system":
        return dialect.inject_system(body, _current(planned, given, new))
    for turn, block in _placed(planned, given, new):
        body = dialect.inject_after(body, turn.index, block)
    return body


def shortened(question: str, most: int = MOST_QUESTION_CHARS) -> str:
    """Valid Unicode of at most that many characters: a longer question keeps its beginning and its end."""
    valid = question.encode("utf-8", "replace").decode()
    if len(valid) <= most:
        return valid
    half = (most - len(_ELLIPSIS)) // 2
    return f"{valid[:half]}{_ELLIPSIS}{valid[-half:]}"


def _current(planned: Plan, given: Conversation, new: str | None) -> str:
    """The block of the present turn; a question without an answer keeps the one it had the last time."""
    if new is not None:
        return new
    if planned.turn is None:
        return (given.latest or "") if planned.reading.is_tool_round else ""
    answers_turn = planned.reading.is_tool_round or planned.question is not None
    return given.blocks.get(planned.turn.hash, "") if answers_turn else ""


def _placed(planned: Plan, given: Conversation, new: str | None) -> Iterator[tuple[UserTurn, str]]:
    for turn in planned.reading.user_turns:
        is_answered_now = new is not None and turn.hash == planned.turn_hash
        block = (new or "") if is_answered_now else given.blocks.get(turn.hash, "")
        if block:
            yield turn, block
