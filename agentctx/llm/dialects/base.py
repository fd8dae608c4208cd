"""What every dialect can answer about a body, from the turns that it reads."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

from agentctx.llm.dialects.content import Body, listed, mapping, replaced, with_item, with_part

Role: TypeAlias = Literal["system", "user", "assistant", "tool", "other"]
CACHE_MARKERS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Clients move these markers from turn to turn; they are not content."""

_HEX_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message or item of a conversation, reduced to what injection needs."""

    index: int
    """Position in the API's own list."""
    role: Role
    texts: tuple[str, ...] = ()
    """Texts of the speaker."""
    results: tuple[str, ...] = ()
    """Texts returned by tools."""
    content: Any = None
    """Original content, for the hash."""
    has_results: bool = False
    calls_tools: bool = False
    takes_block: bool = False
    """Whether a block can follow in the same turn."""

    @property
    def has_text(self) -> bool:
        return any(text.strip() for text in self.texts)


@dataclass(frozen=True, slots=True)
class UserTurn:
    """A user turn with text that a block can follow.

    `hash` identifies the turn within its conversation. It covers the turn's content without cache markers,
    what the assistant said right before it, and how many equal turns came before. So `yes` after one answer
    differs from `yes` after another, and the hash survives the removal of older turns.
    """

    index: int
    hash: str
    question: str
    """The text of the turn."""


class BodyReading:
    """The content of a body, read once; each property is computed on first use."""

    def __init__(self, turns: Sequence[Turn], system_texts: Sequence[str], cache_key: Any) -> None:
        self._turns = turns
        self._system_texts = system_texts
        self._cache_key = cache_key

    @cached_property
    def question(self) -> str | None:
        """The user's last question; None in a tool round, or if the last user turn has no text."""
        turn = _last_turn(self._turns)
        if turn is None or turn.role != "user" or not turn.has_text:
            return None
        return _question_of(turn)

    @cached_property
    def is_tool_round(self) -> bool:
        """Whether this call continues a user turn that was already asked, after a tool result."""
        turn = _last_turn(self._turns)
        if turn is None or turn.role in {"tool", "assistant"}:
            return turn is not None
        return turn.role == "user" and turn.has_results and not turn.has_text

    @cached_property
    def texts(self) -> list[str]:
        """Every text that the model reads anyway: system prompt, turns, tool results."""
        return [*self._system_texts, *(text for turn in self._turns for text in (*turn.texts, *turn.results))]

    def texts_before_answer(self, asked: UserTurn) -> list[str]:
        """Return the texts that the model reads before it begins to answer that turn.

        They are the same in the call that asks and in every later one, whatever tools have answered since.
        """
        turns = _before_answer(self._turns, asked.index)
        return [*self._system_texts, *(text for turn in turns for text in (*turn.texts, *turn.results))]

    @cached_property
    def user_turns(self) -> list[UserTurn]:
        """The user turns that a block can follow, in order, even ones that begin with tool results."""
        return list(_user_turns(self._turns))

    @cached_property
    def first_messages_key(self) -> str | None:
        """A hash of the first messages: system prompt and first user turn; None without a user turn."""
        first = next((turn for turn in self._turns if turn.role == "user"), None)
        if first is None:
            return None
        leading = [turn.texts for turn in self._turns[: first.index] if turn.role == "system"]
        return "first:" + fingerprint(
            self._cache_key, list(self._system_texts), leading, _plain(first.content)
        )


class Dialect(ABC):
    """The format of one API. Methods accept any body, and leave alone what they cannot read.

    A subclass reads one turn and knows where a block goes; the base class answers the questions about a body,
    alike for all. Nothing raises, and no argument is changed: a body with a block is a new object, which
    shares everything else with the old one.
    """

    name: ClassVar[str]
    turns_field: ClassVar[str] = "messages"
    """The field of a body that lists the turns."""
    text_part: ClassVar[str] = "text"
    """The `type` of a text part of a user turn."""
    is_messages_alone: ClassVar[bool] = False
    """Whether a bare list of messages is a whole conversation, including the system prompt."""

    def items(self, body: Body) -> Sequence[Any]:
        """Return the items of the turns' field."""
        return listed(body.get(self.turns_field))

    @abstractmethod
    def turn(self, index: int, item: Mapping[str, Any]) -> Turn:
        """Return one item of the turns' field as a turn."""

    def turns(self, body: Body) -> Sequence[Turn]:
        """Return the turns in the order of the body, without a system prompt outside of them."""
        return [self.turn(index, mapping(item)) for index, item in enumerate(self.items(body))]

    def system_texts(self, body: Body) -> Sequence[str]:  # noqa: ARG002 - for dialects that have it elsewhere
        """Return the texts of a system prompt outside of the turns."""
        return ()

    @abstractmethod
    def inject_system(self, body: Body, block: str) -> Body:
        """Append the block to the system prompt; return the same body if there is no place for it."""

    def inject_after(self, body: Body, turn_index: int, block: str) -> Body:
        """Append the block to that user turn; return the same body if there is no place for it."""
        items = self.items(body)
        if not block or not 0 <= turn_index < len(items):
            return body
        item = mapping(items[turn_index])
        if not self.turn(turn_index, item).takes_block:
            return body
        return replaced(body, self.turns_field, with_item(items, turn_index, self.with_block(item, block)))

    def with_block(self, item: Mapping[str, Any], block: str) -> Mapping[str, Any]:
        """Return the item of a user turn that takes a block, with the block behind its text."""
        return {**item, "content": with_part(item.get("content"), block, self.text_part)}

    def read(self, body: Body) -> BodyReading:
        """Read the content of a body. The reading does not reflect later changes of the body."""
        return BodyReading(self.turns(body), self.system_texts(body), body.get("prompt_cache_key"))

    def conversation_key(self, body: Body, reading: BodyReading | None = None) -> str | None:
        """Return the key of the body's conversation, from its content; None for a body without turns.

        The default is a hash of the first messages: system prompt and first user turn. A `prompt_cache_key`
        is included, but is not enough, as conversations that begin alike are meant to share it. `scope.py`
        handles the headers, which are the same for all APIs. `reading` is the body's, if available.
        """
        return (reading or self.read(body)).first_messages_key

    def reply_key(self, body: Body, reply: Any) -> str | None:  # noqa: ARG002 - only some APIs keep state
        """Return the conversation key of a body that continues from this reply, or from this stream event.

        None if the API keeps no state between calls, or if the event does not name the reply.
        """
        return None


def _last_turn(turns: Sequence[Turn]) -> Turn | None:
    """Return the turn to be answered, skipping later system messages and the beginning of an answer."""
    for turn in reversed(turns):
        if turn.role == "system" or (turn.role == "assistant" and not turn.calls_tools):
            continue
        return turn
    return None


def _user_turns(turns: Sequence[Turn]) -> Iterator[UserTurn]:
    answered: tuple[str, ...] = ()
    seen: dict[str, int] = {}
    for turn in turns:
        if turn.role == "assistant" and turn.texts:
            answered = turn.texts
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
    return "\n\n".join(text.strip() for text in turn.texts if text.strip())


def _plain(content: Any) -> Any:
    """Normalise a content, because clients send the same text first as a string and later as a part."""
    parts = content if isinstance(content, list | tuple) else [content]
    return [
        part["text"] if isinstance(part, Mapping) and isinstance(part.get("text"), str) else part
        for part in parts
    ]


def fingerprint(*values: Any) -> str:
    """Return 32 hexadecimal digits, equal for equal values regardless of the order of fields.

    Cache markers are ignored. Accepts any depth and any type, including types that JSON lacks.
    """
    digest = hashlib.blake2b(digest_size=_HEX_BYTES)
    # Uses a stack instead of recursion, because a body may be nested deeper than Python's call limit.
    waiting: list[Any] = list(reversed(values))
    while waiting:
        value = waiting.pop()
        children = _children(value)
        # The kind and the number of children delimit each value, so that different shapes never collide.
        kind = "object" if isinstance(value, Mapping) else "list"
        head = f"{kind}{len(children)}:" if children is not None else _scalar(value)
        digest.update(head.encode("utf-8", "surrogatepass"))
        waiting.extend(reversed(children or ()))
    return digest.hexdigest()


def _children(value: Any) -> list[Any] | None:
    if isinstance(value, str):
        return None
    if isinstance(value, Mapping):
        names = sorted((name for name in value if name not in CACHE_MARKERS), key=str)
        return [child for name in names for child in (name, value[name])]
    return list(value) if isinstance(value, list | tuple) else None


def _scalar(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return f"{type(value).__name__}{len(text)}:{text}"
