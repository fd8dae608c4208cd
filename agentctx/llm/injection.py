"""What a call asks for, and its outgoing body. No I/O: the adapter and the proxy act on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agentctx.llm.conversation import Conversation
from agentctx.llm.dialects.base import BodyReading, Dialect, UserTurn
from agentctx.llm.dialects.content import Body, word
from agentctx.wire.protocol import InjectionPosition

MAX_QUESTION_CHARS = 8_000
"""A longer question, such as a pasted log, is not a better one, and embedding it delays the call."""
_ELLIPSIS = "\n…\n"

B_co = TypeVar("B_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionPlan:
    """What to do for one call."""

    reading: BodyReading
    question: str | None = None
    """The question of the turn being answered; None if it has no text."""
    turn: UserTurn | None = None
    """The user turn being answered; None if the body has none."""

    @property
    def turn_hash(self) -> str | None:
        return None if self.turn is None else self.turn.hash


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionRequest:
    """What a body asks for, without the body itself."""

    question: str | None = None
    """The question to retrieve for; None if nothing new is needed."""
    turn: str | None = None
    """Hash of the user turn being answered; None if the body has none."""
    is_tool_round: bool = False
    """Whether the call continues a turn whose question was asked before, after a tool result."""
    conversation: str | None = None
    """Key of the conversation, from the body's content; None for a body without turns."""
    model: str = ""
    """The model that the body names; Gemini's API names it in the path."""
    texts: Sequence[str] = ()
    """Texts that the model reads before it answers, or the latest of them; empty without a question."""


def plan(dialect: Dialect, body: Body) -> InjectionPlan:
    """Plan what a call asks for: nothing if the block would have no place."""
    reading = dialect.read(body)
    turn = reading.user_turns[-1] if reading.user_turns else None
    question = None
    if turn is not None:
        question = turn.question if reading.is_tool_round else reading.question
    return InjectionPlan(
        reading=reading, question=None if question is None else shortened(question), turn=turn
    )


def injection_request(dialect: Dialect, body: Body, planned: InjectionPlan) -> InjectionRequest:
    """Return what the body asks for, according to its plan."""
    return InjectionRequest(
        question=planned.question,
        turn=planned.turn_hash,
        is_tool_round=planned.reading.is_tool_round,
        conversation=dialect.conversation_key(body, planned.reading),
        model=word(body.get("model")),
        texts=_texts_before_answer(planned),
    )


def to_retrieve(request: InjectionRequest, given: Conversation) -> str | None:
    """Return the question for the source, or None.

    In a tool round whose question was answered before, with or without a block, it is None: that answer holds
    for the whole turn. If the answer is unknown (a restart, an evicted conversation, a source that failed),
    the tool round repeats the question of its user turn.
    """
    return None if request.is_tool_round and request.turn in given.answered else request.question


def texts_present(
    request: InjectionRequest, position: InjectionPosition, given: Conversation
) -> Sequence[str]:
    """Return what the model reads before it answers, in the order of the body, so that retrieval skips it.

    At the tail, the blocks given again count as well, except the one of the present turn, which may be
    replaced.
    """
    if position == "system":
        return request.texts
    earlier = [block for name, block in given.blocks.items() if name != request.turn]
    return [*request.texts, *earlier]


def inject(
    dialect: Dialect,
    body: Body,
    *,
    position: InjectionPosition,
    planned: InjectionPlan,
    given: Conversation,
    new: str | None = None,
) -> Body:
    """Return the outgoing body.

    `given` holds the blocks of earlier calls. `new` is the block retrieved for this call: None if nothing was
    asked or no answer came, empty if nothing is relevant. At the tail, every earlier block stays in its
    place, byte for byte. The system prompt gets only the block of the present turn. Without any block, the
    same object is returned.
    """
    if position == "system":
        return dialect.inject_system(body, _current_block(planned, given, new))
    for turn, block in _blocks_by_turn(planned, given, new):
        body = dialect.inject_after(body, turn.index, block)
    return body


def shortened(question: str, limit: int = MAX_QUESTION_CHARS) -> str:
    """Return valid Unicode of at most `limit` characters, keeping both ends of a long question."""
    valid = question.encode("utf-8", "replace").decode()
    if len(valid) <= limit:
        return valid
    half = (limit - len(_ELLIPSIS)) // 2
    return f"{valid[:half]}{_ELLIPSIS}{valid[-half:]}"


def _texts_before_answer(planned: InjectionPlan) -> Sequence[str]:
    """Return the texts before the answer. Later tool results do not count, so that a tool round asking again
    gets the same block as the first call, which keeps the vendor's cache valid.
    """
    if planned.question is None or planned.turn is None:
        return ()
    return planned.reading.texts_before_answer(planned.turn)


def _current_block(planned: InjectionPlan, given: Conversation, new: str | None) -> str:
    """Return the block of the present turn; a question without an answer keeps its previous block."""
    if new is not None:
        return new
    if planned.turn is None:
        return (given.latest or "") if planned.reading.is_tool_round else ""
    return "" if planned.question is None else given.blocks.get(planned.turn.hash, "")


def _blocks_by_turn(
    planned: InjectionPlan, given: Conversation, new: str | None
) -> Iterator[tuple[UserTurn, str]]:
    for turn in planned.reading.user_turns:
        is_answered_now = new is not None and turn.hash == planned.turn_hash
        block = (new or "") if is_answered_now else given.blocks.get(turn.hash, "")
        if block:
            yield turn, block


class ModelCall(Protocol[B_co]):
    """A call and its body. Call `read` before `inject`. If one raises, the call goes out unchanged."""

    @property
    def body(self) -> B_co:
        """The original body."""

    @property
    def is_large(self) -> bool:
        """Whether reading it takes so long that it must be done in a thread."""

    def read(self) -> InjectionRequest: ...

    def inject(self, position: InjectionPosition, given: Conversation, new: str | None) -> B_co:
        """Return the body with its blocks, or the same object if no block is added."""


class ParsedCall:
    """A `ModelCall` on a body that is already parsed."""

    is_large = False

    def __init__(self, dialect: Dialect, body: Body) -> None:
        self._dialect = dialect
        self._plan: InjectionPlan | None = None
        self.body = body

    def read(self) -> InjectionRequest:
        planned = self._plan = plan(self._dialect, self.body)
        return injection_request(self._dialect, self.body, planned)

    def inject(self, position: InjectionPosition, given: Conversation, new: str | None) -> Body:
        planned = self._plan or plan(self._dialect, self.body)
        return inject(self._dialect, self.body, position=position, planned=planned, given=given, new=new)
