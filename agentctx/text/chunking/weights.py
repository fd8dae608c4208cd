"""Measure how much text fits: every character has a weight, and a budget is a sum of weights."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol, TypeAlias

from agentctx.errors import InvalidInput

Weight: TypeAlias = Callable[[str], int]
"""Returns the weight of a character, at least 1; called once for each distinct character."""


class TextMeasure(Protocol):
    """Measures one text."""

    def between(self, start: int, end: int) -> int:
        """Return the weight of `text[start:end]`."""

    def reach(self, start: int, budget: int) -> int:
        """Return the greatest `end` for which `text[start:end]` weighs at most `budget`."""

    def reach_back(self, end: int, budget: int) -> int:
        """Return the lowest `start` for which `text[start:end]` weighs at most `budget`."""


@dataclass(frozen=True, slots=True)
class CharacterMeasure:
    """Every character counts 1."""

    length: int

    def between(self, start: int, end: int) -> int:
        return end - start

    def reach(self, start: int, budget: int) -> int:
        return min(self.length, start + budget)

    def reach_back(self, end: int, budget: int) -> int:
        return max(0, end - budget)


@dataclass(frozen=True, slots=True)
class WeightedMeasure:
    """`sums[i]` is the weight of the first `i` characters; strictly increasing from 0."""

    sums: array[int]

    def between(self, start: int, end: int) -> int:
        return self.sums[end] - self.sums[start]

    def reach(self, start: int, budget: int) -> int:
        return bisect_right(self.sums, self.sums[start] + budget, start) - 1

    def reach_back(self, end: int, budget: int) -> int:
        return bisect_left(self.sums, self.sums[end] - budget, 0, end)


class WeightTable(dict[str, int]):
    """Caches the `weight` of characters.

    Raises `InvalidInput` if it is less than 1, because the packer could not bound a chunk.
    """

    def __init__(self, weight: Weight) -> None:
        super().__init__()
        self._weight = weight

    def __missing__(self, character: str) -> int:
        value = self._weight(character)
        if value < 1:
            raise InvalidInput(
                f"The weight of a character must be at least 1, got {value} for {character!r}."
            )
        self[character] = value
        return value

    def measure(self, text: str) -> WeightedMeasure:
        return WeightedMeasure(array("q", accumulate(map(self.__getitem__, text), initial=0)))
