"""Texts that resemble English to a tokenizer and an index: Zipf's law over real words, from a seed."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import accumulate

from agentctx.embedding.providers.embedded.weights import TOKENIZER

VOCABULARY = 8_000
"""Number of words. The tokenizer's vocabulary is sorted by frequency: its first words are the common ones."""
_OFFSET = 2.7
"""Mandelbrot's offset: without it the first words are too common."""


@cache
def common_words() -> tuple[str, ...]:
    """Return whole English words, the most common first."""
    vocabulary: dict[str, int] = json.loads(TOKENIZER.verified().read_text("utf-8"))["model"]["vocab"]
    ranked = sorted(vocabulary, key=vocabulary.__getitem__)
    return tuple(word for word in ranked if word.isascii() and word.isalpha() and len(word) > 1)[:VOCABULARY]


class TextSource:
    """An endless supply of texts; the same seed yields the same texts in the same order."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words = common_words()
        self._weights = list(accumulate(1 / (rank + _OFFSET) for rank in range(len(self._words))))
        self._names = 0

    def text(self, characters: int) -> str:
        """Return sentences in paragraphs, of `characters` or up to a word less."""
        parts: list[str] = []
        length = 0
        while length < characters:
            parts.append(self._sentence())
            length += len(parts[-1]) + 1
            parts.append("\n\n" if self._random.random() < 0.15 else " ")
        return "".join(parts)[:characters].rsplit(" ", 1)[0]

    def question(self) -> str:
        """Return a question of 6 to 14 words."""
        return f"{' '.join(self._take(self._random.randint(6, 14))).capitalize()}?"

    def name(self) -> str:
        """Return a new word that no text contains."""
        self._names += 1
        letters = self._random.choices("bcdfghjklmnpqrstvwxz", k=8)
        return f"{''.join(letters)}{self._names}"

    def _sentence(self) -> str:
        words = self._take(self._random.randint(6, 22))
        if len(words) > 12:
            words[len(words) // 2] += ","
        return f"{' '.join(words).capitalize()}."

    def _take(self, count: int) -> list[str]:
        return self._random.choices(self._words, cum_weights=self._weights, k=count)
