"""What a call asks for, and its outgoing body. No I/O: the adapter and the proxy act on it."""

from __future__ import annotations

from collections.abc import Sequence
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


def shortened(question: str, limit: int = MAX_QUESTION_CHARS) -> str:
    """Return valid Unicode of at most `limit` characters, keeping both ends of a long question."""
    valid = question.encode("utf-8", "replace").decode()
    if len(valid) <= limit:
        return valid
    half = (limit - len(_ELLIPSIS)) // 2
    return f"{valid[:half]}{_ELLIPSIS}{valid[-half:]}"


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
    _reading: BodyReading
    _turn: UserTurn | None = None
    """The user turn being answered; None if the body has none."""
    _question: str | None = None
    """Its question; None if it has no text."""

    def __init__(self, dialect: Dialect, body: Body) -> None:
        self._dialect = dialect
        self.body = body

    def read(self) -> InjectionRequest:
        """Return what the body asks for: nothing if the block would have no place."""
        reading = self._reading = self._dialect.read(self.body)
        texts: Sequence[str] = ()
        if reading.user_turns:
            self._turn = turn = reading.user_turns[-1]
            question = turn.question if reading.is_tool_round else reading.question
            if question is not None:
                self._question = shortened(question)
                # Later tool results do not count, so that a tool round asking again gets the same block as
                # the first call, which keeps the vendor's cache valid.
                texts = reading.texts_before_answer(turn)
        return InjectionRequest(
            question=self._question,
            turn=None if self._turn is None else self._turn.hash,
            is_tool_round=reading.is_tool_round,
            conversation=self._dialect.conversation_key(self.body, reading),
            model=word(self.body.get("model")),
            texts=texts,
        )

    def inject(self, position: InjectionPosition, given: Conversation, new: str | None) -> Body:
        """Return the outgoing body.

        `given` holds the blocks of earlier calls. `new` is the block retrieved for this call: None if nothing
        was asked or no answer came, empty if nothing is relevant. At the tail, every earlier block stays in
        its place, byte for byte. The system prompt gets only the block of the present turn. Without any
        block, the same object is returned.
        """
        if position == "system":
            return self._dialect.inject_system(self.body, self._current_block(given, new))
        body = self.body
        for turn in self._reading.user_turns:
            is_answered_now = new is not None and turn is self._turn
            block = new if is_answered_now else given.blocks.get(turn.hash)
            if block:
                body = self._dialect.inject_after(body, turn.index, block)
        return body

    def _current_block(self, given: Conversation, new: str | None) -> str:
        """Return the block of the present turn; a question without an answer keeps its previous block."""
        if new is not None:
            return new
        if self._turn is None:
            return (given.latest or "") if self._reading.is_tool_round else ""
        return "" if self._question is None else given.blocks.get(self._turn.hash, "")
