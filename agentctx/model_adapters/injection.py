"""What a call asks for, and the body it goes out with. Pure: the adapter and the proxy act on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentctx.model_adapters.conversation import Conversation
from agentctx.model_adapters.dialects.base import BodyReading, Dialect, UserTurn
from agentctx.model_adapters.dialects.content import Body
from agentctx.wire.names import InjectionPosition

MOST_QUESTION_CHARS = 8_000
"""A pasted log is not a better question for being longer, and embedding it takes the call's time."""
_ELLIPSIS = "\n…\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionPlan:
    """What is to be done for one call."""

    reading: BodyReading
    question: str | None = None
    """What the turn that is being answered asks; None where it asks nothing in words."""
    turn: UserTurn | None = None
    """The user turn that is being answered; None where the body has none."""

    @property
    def turn_hash(self) -> str | None:
        return None if self.turn is None else self.turn.hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a body asks for, without the body."""

    question: str | None = None
    """What to retrieve for; None: nothing new is wanted."""
    turn: str | None = None
    """The hash of the user turn that is being answered; None where the body has none."""
    is_tool_round: bool = False
    """Whether the call continues a turn whose question was asked before: a tool has answered."""
    conversation: str | None = None
    """Which conversation it belongs to, by what it holds; None for a body without turns."""
    texts: Sequence[str] = ()
    """What the model reads before it answers, or the last of it; empty where nothing is asked."""


def plan(dialect: Dialect, body: Body) -> InjectionPlan:
    """What a call asks for: nothing where the block would have no place."""
    reading = dialect.read(body)
    turn = reading.user_turns[-1] if reading.user_turns else None
    question = None if turn is None else _question(reading, turn)
    return InjectionPlan(
        reading=reading, question=None if question is None else shortened(question), turn=turn
    )


def asked_of(dialect: Dialect, body: Body, planned: InjectionPlan) -> Asked:
    """What the body asks for, as its plan says."""
    return Asked(
        question=planned.question,
        turn=planned.turn_hash,
        is_tool_round=planned.reading.is_tool_round,
        conversation=dialect.conversation_key(body, planned.reading),
        texts=_texts_before_answer(planned),
    )


def to_retrieve(asked: Asked, given: Conversation) -> str | None:
    """The question that the source is asked now.

    None in a tool round whose question was answered before, with a block or without: that answer stands for
    the whole turn. Where it is unknown (a restart, a conversation dropped from memory, a source that failed)
    the tool round asks what its user turn asked.
    """
    return None if asked.is_tool_round and asked.turn in given.answered else asked.question


def texts_present(asked: Asked, position: InjectionPosition, given: Conversation) -> Sequence[str]:
    """What the model reads before it answers, so that retrieval repeats none of it, in the order of the body.

    At the tail the blocks that are given again count; the one of the present turn does not, since it may be
    replaced.
    """
    if position == "system":
        return asked.texts
    earlier = [block for name, block in given.blocks.items() if name != asked.turn]
    return [*asked.texts, *earlier]


def inject(
    dialect: Dialect,
    body: Body,
    *,
    position: InjectionPosition,
    planned: InjectionPlan,
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


def _texts_before_answer(planned: InjectionPlan) -> Sequence[str]:
    """What tools answered since does not count: a tool round that has to ask again gets the block of the call
    that asked first, and so leaves the vendor's cache whole.
    """
    if planned.question is None or planned.turn is None:
        return ()
    return planned.reading.texts_before_answer(planned.turn)


def _question(reading: BodyReading, turn: UserTurn) -> str | None:
    return turn.question if reading.is_tool_round else reading.question


def _current(planned: InjectionPlan, given: Conversation, new: str | None) -> str:
    """The block of the present turn; a question without an answer keeps the one it had the last time."""
    if new is not None:
        return new
    if planned.turn is None:
        return (given.latest or "") if planned.reading.is_tool_round else ""
    return "" if planned.question is None else given.blocks.get(planned.turn.hash, "")


def _placed(planned: InjectionPlan, given: Conversation, new: str | None) -> Iterator[tuple[UserTurn, str]]:
    for turn in planned.reading.user_turns:
        is_answered_now = new is not None and turn.hash == planned.turn_hash
        block = (new or "") if is_answered_now else given.blocks.get(turn.hash, "")
        if block:
            yield turn, block
