"""Rank the candidates, scoring turns of a conversation in the context of their neighbours. No I/O.

A turn that answers a question often contains none of its words, because they are in the turn before. So the
words and the nearness of neighbours also count for a turn, less so with distance, and a turn with substance
counts more than an acknowledgement. docs/relevance.md names the data sets on which this was measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.cues import cues_for
from agentctx.service.rag.fuse import nearness, with_score, word_shares
from agentctx.storage.passage_traits import MOST_TIMES, PassageTraits
from agentctx.storage.search import Neighbours, ResolvedChunk

Values: TypeAlias = npt.NDArray[np.float64]
"""A value, or a row of values, for each turn of a pool."""

WORDS_OF: Mapping[int, float] = {-1: 0.6, -2: 0.3, 1: 0.4, 2: 0.2}
"""Weight of a neighbour's words in a turn's score, by the neighbour's offset."""
NEARNESS_OF: Mapping[int, float] = {0: 1.0, -1: 0.5, -2: 0.3, 1: 0.3, 2: 0.2}
"""Weight of a neighbour's nearness to the question in a turn's score, by the neighbour's offset."""
K1, B = 0.9, 0.75
"""BM25 parameters: how quickly repetitions of a word saturate, and how much long texts are discounted."""
NEARNESS, SPEAKER, TIME, ASKS, LENGTH = 0.45, 0.35, 0.35, 0.1, 0.7
MIN_SHARE_OF_IDEAL = 0.4
"""The share of the ideal score (a turn with all words of the question) that the best needs to count as 1."""
FULL_LENGTH = 50
"""Number of words at which a turn counts as full length."""

_ASKS_WHEN = re.compile(r"\s*when\b|.*\b(?:what|which) (?:date|day|month|year|time)\b|.*\bhow long\b", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The passages to rank together, each at the same position of all lists."""

    traits: Sequence[PassageTraits]
    nearness: Sequence[float]
    """0 to 1 within the pool."""
    words: Sequence[float]
    """A score from 0 to 1 by words alone, for passages outside conversations."""
    neighbours: Sequence[Mapping[int, int] | None]
    """The positions of each turn's neighbours, by offset; None outside conversations."""


def rank(
    question: str,
    candidates: Sequence[Candidate],
    traits: Mapping[int, PassageTraits],
    turns: Neighbours,
    *,
    rarity: Mapping[str, float],
    dense_weight: float,
    limit: int,
    always: Collection[int] = (),
) -> list[Candidate]:
    """Return the first `limit` of the ranked candidates, best first, and those that are `always` wanted.

    Without conversations, the fused order is kept.

    `traits` maps each chunk to its traits, `rarity` each word of the question to its weight.
    """
    if not turns:
        return [each for at, each in enumerate(candidates) if at < limit or each.chunk in always]
    positions = {candidate.chunk: at for at, candidate in enumerate(candidates)}
    neighbours, shares = _neighbour_positions(turns, positions), word_shares(candidates, sum(rarity.values()))
    pool = Pool(
        traits=[traits[chunk] for chunk in positions],
        nearness=nearness(candidates, shares),
        words=shares,
        neighbours=[neighbours.get(chunk) for chunk in positions],
    )
    ranked = sorted(
        (-score, candidate.chunk, at)
        for at, (score, candidate) in enumerate(
            zip(scores(question, pool, rarity, dense_weight), candidates, strict=True)
        )
    )
    kept = (row for place, row in enumerate(ranked) if place < limit or row[1] in always)
    return [with_score(candidates[at], -score) for score, _, at in kept]


def with_neighbours(
    candidates: Sequence[Candidate],
    turns: Neighbours,
    traits: Mapping[int, PassageTraits],
    distances: Mapping[int, float],
) -> list[Candidate]:
    """Append the turns next to the candidates that are not candidates themselves."""
    known = {candidate.chunk for candidate in candidates}
    neighbours = dict.fromkeys(
        chunk for row in turns.values() for chunk in row.values() if chunk not in known
    )
    return [
        *candidates,
        *(
            Candidate(chunk, traits[chunk].entry, None, distances.get(chunk))
            for chunk in neighbours
            if chunk in traits
        ),
    ]


def _neighbour_positions(turns: Neighbours, positions: Mapping[int, int]) -> dict[int, dict[int, int]]:
    """Return the positions of each turn's neighbours, also for turns that were found only as neighbours."""
    rows: dict[int, dict[int, int]] = {}
    for chunk, row in turns.items():
        line = {offset: positions[at] for offset, at in ((0, chunk), *row.items()) if at in positions}
        rows[chunk] = {offset: position for offset, position in line.items() if offset}
        for here, at in row.items():
            if at not in turns:
                mine = rows.setdefault(at, {})
                for there, position in line.items():
                    if there != here and -2 <= there - here <= 2:
                        mine[there - here] = position
    return rows


def scores(question: str, pool: Pool, weights: Mapping[str, float], dense_weight: float) -> list[float]:
    """Score each passage of the pool, higher is better; scores are comparable only within the pool.

    `weights` are the rarities (idf) of the question's words, `dense_weight` the share of nearness.
    """
    if not pool.traits:
        return []
    lengths = [each.words for each in pool.traits]
    by_offset = _NeighbourPositions.of(pool.neighbours)
    words = _word_scores(pool, np.array(lengths, np.float64), weights, by_offset).tolist()
    near = (NEARNESS * by_offset.sums(np.array(pool.nearness), NEARNESS_OF)).tolist()
    style = _style_scores(question, pool.traits, lengths)
    # Outside conversations, assume full length, and neighbours as near as the passage itself.
    full = NEARNESS * sum(NEARNESS_OF.values())
    by_words, by_nearness = 2 * (1 - dense_weight), 2 * dense_weight
    return [
        by_words * pool.words[at] + by_nearness * full * pool.nearness[at] + LENGTH
        if neighbours is None
        else by_words * words[at] + by_nearness * near[at] + style[at]
        for at, neighbours in enumerate(pool.neighbours)
    ]


@dataclass(frozen=True, slots=True)
class _NeighbourPositions:
    """For each offset, the pool position of each turn's neighbour, or -1 if it has none."""

    positions: Mapping[int, npt.NDArray[np.intp]]

    @classmethod
    def of(cls, neighbours: Sequence[Mapping[int, int] | None]) -> Self:
        positions = {offset: [-1] * len(neighbours) for offset in WORDS_OF}
        for at, row in enumerate(neighbours):
            for offset, position in (row or {}).items():
                positions[offset][at] = position
        return cls({offset: np.array(row, np.intp) for offset, row in positions.items()})

    def sums(self, values: Values, shares: Mapping[int, float]) -> Values:
        """Return each turn's own value plus the weighted values of its neighbours."""
        own: Values = values * shares.get(0, 1.0)
        padded = np.concatenate([values, np.zeros_like(values[:1])])
        for offset, positions in self.positions.items():
            own += shares[offset] * padded[positions]
        return own


def _word_scores(
    pool: Pool, lengths: Values, weights: Mapping[str, float], by_offset: _NeighbourPositions
) -> Values:
    """Score the words of each turn and its neighbours by BM25, scaled to at most 1."""
    columns = {word: column for column, word in enumerate(weights)}
    width = len(columns)
    positions = [
        row * width + columns[word]
        for row, each in enumerate(pool.traits)
        for word in each.found
        if word in columns
    ]
    present = np.zeros(len(pool.traits) * width)
    present[positions] = 1.0
    counts = by_offset.sums(present.reshape(len(pool.traits), width), WORDS_OF)
    spans = by_offset.sums(lengths, WORDS_OF) / max(lengths.mean() * (1 + sum(WORDS_OF.values())), 1e-9)
    norms = K1 * (1 - B + B * spans)
    rarities = np.array(list(weights.values()), np.float64)
    scores: Values = (counts * (K1 + 1) / (counts + norms[:, np.newaxis])) @ rarities
    scores[[neighbours is None for neighbours in pool.neighbours]] = 0.0
    best = max(float(scores.max()), MIN_SHARE_OF_IDEAL * float(rarities.sum()))
    return scores / best if best else scores


def _style_scores(question: str, traits: Sequence[PassageTraits], lengths: Sequence[int]) -> list[float]:
    """Score the other criteria: the speaker, mentions of time, the length, and not being a question."""
    folded, asks_when = question.casefold(), bool(_ASKS_WHEN.match(question))
    substance = LENGTH * np.minimum(np.log1p(np.array(lengths)) / math.log(FULL_LENGTH), 1.0)
    scores: list[float] = substance.tolist()
    for at, each in enumerate(traits):
        if (speaker := each.speaker) and speaker.casefold() in folded:
            scores[at] += SPEAKER
        if each.asks:
            scores[at] -= ASKS
        if asks_when:
            scores[at] += TIME * each.times / MOST_TIMES
    return scores


def searched_texts(resolved: ResolvedChunk) -> list[str]:
    """Return the texts whose words count: a passage's own, its agent, its labels and its cues."""
    entry, attributes = resolved.entry, resolved.entry.attributes
    labels = [entry.key or "", str(attributes.get("trigger") or ""), *(attributes.get("tags") or ())]
    return [resolved.content, entry.agent, "\n".join(filter(None, labels)), *cues_for(resolved)]
