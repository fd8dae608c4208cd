"""What every dialect answers about a body, from the turns it reads in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

from agentctx.model_adapters.dialects.content import Body
from agentctx.model_adapters.dialects.fingerprint import fingerprint

Role: TypeAlias = Literal["system", "user", "assistant", "tool", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message or item of a conversation, as far as injection cares."""

    index: int
    """In the API's own list."""
    role: Role
    said: tuple[str, ...] = ()
    """Texts of the speaker."""
    results: tuple[str, ...] = ()
    """Texts that tools gave back."""
    content: Any = None
    """As the API has it; for the hash."""
    has_results: bool = False
    calls_tools: bool = False
    takes_block: bool = False
    """Whether a block can follow in the same turn."""

    @property
    def has_text(self) -> bool:
        return any(text.strip() for text in self.said)


@dataclass(frozen=True, slots=True)
class UserTurn:
    """A user turn that says something and that a block can follow.

    `hash` names the turn within its conversation: it is made of the turn's content without cache markers, of
    what the assistant said right before it, and of how often the same came before. So `yes` after one answer
    is not `yes` after another, and the hash survives the removal of older turns.
    """

    index: int
    hash: str
    question: str
    """What it says."""


class BodyReading:
    """What a body says, read once; each answer is made when it is first asked for."""

    def __init__(self, turns: Sequence[Turn], system_texts: Sequence[str], cache_key: Any) -> None:
        self._turns = turns
        self._system_texts = system_texts
        self._cache_key = cache_key

    @cached_property
    def question(self) -> str | None:
        turn = _last_turn(self._turns)
        if turn is None or turn.role != "user" or not turn.has_text:
            return None
        return _question_of(turn)

    @cached_property
    def is_tool_round(self) -> bool:
        turn = _last_turn(self._turns)
        return turn is not None and _continues(turn)

    @cached_property
    def texts(self) -> list[str]:
        return [*self._system_texts, *(text for turn in self._turns for text in (*turn.said, *turn.results))]

    def texts_before_answer(self, asked: UserTurn) -> list[str]:
        """The texts that the model reads before it begins to answer that turn.

        The same in the call that asks and in every later one, whatever tools have answered since.
        """
        turns = _before_answer(self._turns, asked.index)
        return [*self._system_texts, *(text for turn in turns for text in (*turn.said, *turn.results))]

    @cached_property
    def user_turns(self) -> list[UserTurn]:
        return list(_user_turns(self._turns))

    @cached_property
    def first_messages_key(self) -> str | None:
        first = next((turn for turn in self._turns if turn.role == "user"), None)
        if first is None:
            return None
        leading = [turn.said for turn in self._turns[: first.index] if turn.role == "system"]
        return "first:" + fingerprint(
            self._cache_key, list(self._system_texts), leading, _plain(first.content)
        )


class Dialect(ABC):
    """The format of one API. Every method takes any body: what it cannot read, it leaves alone.

    A dialect reads `turns`, and knows where a block goes; the questions about a body are answered here, alike
    for all. Nothing raises, nothing changes its argument: a body that gets a block is a new one, which shares
    everything else with the old.
    """

    name: ClassVar[str]
    is_messages_alone: ClassVar[bool] = False
    """Whether a bare list of messages is a whole conversation: the system prompt is among them."""

    @abstractmethod
    def turns(self, body: Body) -> Sequence[Turn]:
        """The conversation in the order of the body, without a system prompt outside the turns."""

    @abstractmethod
    def system_texts(self, body: Body) -> Sequence[str]:
        """The texts of a system prompt outside the turns."""

    @abstractmethod
    def inject_system(self, body: Body, block: str) -> Body:
        """The body with the block at the end of the system prompt; the same body where it has no place."""

    @abstractmethod
    def inject_after(self, body: Body, turn_index: int, block: str) -> Body:
        """The body with the block at the end of that user turn; the same body where it has no place."""

    def read(self, body: Body) -> BodyReading:
        """All that is asked of a body below, read once. It does not follow later changes of the body."""
        return BodyReading(self.turns(body), self.system_texts(body), body.get("prompt_cache_key"))

    def question(self, body: Body) -> str | None:
        """What the user said last. None in a tool round, and where the last user turn has no text."""
        return self.read(body).question

    def is_tool_round(self, body: Body) -> bool:
        """Whether this call continues a user turn whose question was already asked: a tool has answered."""
        return self.read(body).is_tool_round

    def texts(self, body: Body) -> list[str]:
        """Every text that the model will read anyway: system prompt, turns, results of tools."""
        return self.read(body).texts

    def user_turns(self, body: Body) -> list[UserTurn]:
        """The user turns that a block can follow, in order; also one that begins with results of tools."""
        return self.read(body).user_turns

    def conversation_key(self, body: Body, reading: BodyReading | None = None) -> str | None:
        """Which conversation the body belongs to, by what it holds; None for a body without turns.

        By default a hash of the first messages: system prompt and first user turn. A `prompt_cache_key`
        counts too, but names no conversation alone: it is meant to be shared by those that begin alike.
        Headers, which are alike for all APIs, are `scope.py`'s. `reading` is the body's, if there is one.
        """
        return (reading or self.read(body)).first_messages_key

    def reply_key(self, body: Body, reply: Any) -> str | None:  # noqa: ARG002 - only some APIs keep state
        """The conversation key of a body that continues from this reply, or from this event of its stream.

        None where the API keeps no state between calls, or the event does not name the reply.
        """
        return None


def _last_turn(turns: Sequence[Turn]) -> Turn | None:
    """The turn that is to be answered: not system messages after it, nor the beginning of the answer."""
    for turn in reversed(turns):
        if turn.role == "system" or (turn.role == "assistant" and not turn.calls_tools):
            continue
        return turn
    return None


def _continues(turn: Turn) -> bool:
    if turn.role in {"tool", "assistant"}:
        return True
    return turn.role == "user" and turn.has_results and not turn.has_text


def _user_turns(turns: Sequence[Turn]) -> Iterator[UserTurn]:
    answered: tuple[str, ...] = ()
    seen: dict[str, int] = {}
    for turn in turns:
        if turn.role == "assistant" and turn.said:
            answered = turn.said
        if turn.role != "user" or not turn.takes_block or not turn.has_text:
            continue
        plain = fingerprint(list(answered), _plain(turn.content))
        seen[plain] = seen.get(plain, 0) + 1
        yield UserTurn(turn.index, f"{plain}-{seen[plain]}", _question_of(turn))


def _before_answer(turns: Sequence[Turn], asked: int) -> Iterator[Turn]:
    for turn in turns:
        if turn.index > asked and (turn.role not in {"system", "user"} or turn.has_results):
            return
        yield turn


def _question_of(turn: Turn) -> str:
    return "\n\n".join(text.strip() for text in turn.said if text.strip())


def _plain(content: Any) -> Any:
    """A content in one form: clients send a text as a string now and as a part later."""
    parts = content if isinstance(content, list | tuple) else [content]
    return [_plain_part(part) for part in parts]


def _plain_part(part: Any) -> Any:
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return part["text"]
    return part
