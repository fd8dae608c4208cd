"""Receipts of injections: what was put into an LLM call, from what, and why the rest was left out.

Ids and figures only. What an entry says never gets here, so forgetting an entry leaves nothing of it behind.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from agentctx.wire import Fate, InjectionPosition

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's: none that is taken for another one when it is read aloud."""
_TIME_DIGITS, _RANDOM_DIGITS = 9, 3


class CandidateFigures(NamedTuple):
    """One candidate. `reranked` is its place by the reranker, from 1."""

    entry: str
    chunk: int
    word_score: float | None
    distance: float | None
    relevance: float
    fate: Fate
    duplicate_of: str | None = None
    reranked: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One injection, also one of nothing: then `tokens` is 0 and there is no `block_hash`.

    `question` is there only if the operator wants prompts stored. `gate` is the
    relevance that the best passage needed; None when none was needed.
    """

    id: str
    created: int
    namespaces: tuple[str, ...]
    session: str
    """Of the question, else the conversation that the block went to."""
    agent: str
    principal: int | None
    restarted: bool
    """Whether the conversation held nothing of before."""
    position: InjectionPosition
    question_hash: str
    question: str | None
    gate: float | None
    degraded: str | None
    rerank: str | None
    candidates: tuple[CandidateFigures, ...]
    fates: Mapping[Fate, int]
    """How many of all candidates, those that are not kept here too."""
    budget_tokens: int
    tokens: int
    milliseconds: float
    block_hash: str | None
    """SHA-256 of the block's bytes."""


Visible: TypeAlias = Callable[[Sequence[str], int | None], bool]
"""Whether receipts of these namespaces and a principal may be shown. Called in another thread."""


MOST_OF_CONVERSATION = 500
"""Receipts of one conversation that are looked at."""


def since_restart(receipts: Iterable[Receipt]) -> list[Receipt]:
    """Of receipts, newest first, those up to the last restart of their conversation."""
    found: list[Receipt] = []
    for receipt in receipts:
        found.append(receipt)
        if receipt.restarted:
            break
    return found


def everything(namespaces: Sequence[str], principal: int | None) -> bool:  # noqa: ARG001 - fits as `Visible`
    """They all may."""
    return True


class InjectionStorage(Protocol):
    """Where receipts are kept."""

    async def add(self, receipts: Sequence[Receipt]) -> None:
        """Keep them; one with an id that is there already is left out."""
        ...

    async def find(self, injection_id: str) -> Receipt | None: ...

    async def last(self, limit: int, visible: Visible = everything) -> list[Receipt]:
        """The newest that are visible, newest first."""
        ...

    async def of_conversation(self, conversation: str, principal: int | None) -> list[Receipt]:
        """Those of a user's conversation, newest first, up to the last that says it restarted."""
        ...

    async def sweep(self, *, before: int, keep: int) -> int:
        """Remove those made before then, and all but the newest `keep`; returns how many went."""
        ...

    async def expired(self, entry_id: str) -> bool:
        """Whether an entry is still there but past its time."""
        ...


class InjectionIds:
    """Ids of 12 characters that sort by the time they were made, also within a millisecond."""

    def __init__(self) -> None:
        self._last = -1

    def new(self, now_ms: int) -> str:
        random_bits = 5 * _RANDOM_DIGITS
        self._last = max(self._last + 1, now_ms << random_bits | secrets.randbits(random_bits - 1))
        return _encoded(self._last)


def _encoded(number: int) -> str:
    return "".join(
        _DIGITS[number >> 5 * place & 31] for place in reversed(range(_TIME_DIGITS + _RANDOM_DIGITS))
    )
