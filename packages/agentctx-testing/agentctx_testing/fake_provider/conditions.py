"""Conditions that select the requests to which a fault or an answer applies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, PositiveInt


class RequestConditions(BaseModel):
    """Conditions that must all hold; without any, every request matches."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    request: PositiveInt | None = None
    """Number of the request since the script was set, counted from 1 across all providers."""
    contains: str | tuple[str, ...] = ()
    """Texts that must each occur in some string of the request's body."""
    provider: str | None = None
    times: PositiveInt | None = None

    def matches(self, number: int, provider: str, payload: object) -> bool:
        """Return whether the conditions hold for this request; `times` is not considered."""
        if self.request is not None and self.request != number:
            return False
        if self.provider is not None and self.provider != provider:
            return False
        required = (self.contains,) if isinstance(self.contains, str) else self.contains
        return all(any(part in text for text in strings(payload)) for part in required)


Rule = TypeVar("Rule", bound=RequestConditions)


class FakeRules(Generic[Rule]):
    """An ordered list of rules. The first that matches a request applies, each at most `times` times."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._uses = [0] * len(self.rules)

    def choose(self, number: int, provider: str, payload: object) -> Rule | None:
        """Return the rule for this request, if any, and count one more use of it."""
        for at, rule in enumerate(self.rules):
            spent = rule.times is not None and self._uses[at] >= rule.times
            if not spent and rule.matches(number, provider, payload):
                self._uses[at] += 1
                return rule
        return None


def strings(payload: object) -> Iterator[str]:
    """Yield every string value of a JSON document."""
    if isinstance(payload, str):
        yield payload
    elif isinstance(payload, dict):
        for value in payload.values():
            yield from strings(value)
    elif isinstance(payload, list):
        for value in payload:
            yield from strings(value)
