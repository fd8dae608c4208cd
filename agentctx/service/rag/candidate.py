"""A chunk on its way into an answer. No I/O."""

from __future__ import annotations

from typing import NamedTuple


class Candidate(NamedTuple):
    """A chunk that may be part of the answer.

    `word_score` grows with relevance; None if keyword search did not find the chunk. `distance` is the cosine
    distance, 0 to 2; None if the chunk has no vector. `score` orders the candidates of one question, higher
    is better. `relevance` is the probability that the chunk answers the question, 0 until it is judged;
    `by_words` says that it was judged by words alone, `by_cue` that the distance is a cue's, `is_partial`
    that the text, or the cue with the words, has no vector. `rarity` sums the idf of the
    question's words in it, 0 until read.
    """

    chunk: int
    entry: str
    word_score: float | None
    distance: float | None
    score: float = 0.0
    relevance: float = 0.0
    by_words: bool = False
    by_cue: bool = False
    is_partial: bool = False
    rarity: float = 0.0

    @property
    def is_unmeasured(self) -> bool:
        """Whether the text, or the cue with the words, has no vector."""
        return self.distance is None or self.is_partial
