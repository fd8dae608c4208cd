"""Find the passages that may answer a question: what to read, in which order, and how to rank it. No I/O.

The storage makes the reads at once (`SearchStorage.follow`): for each of them, the event loop and the thread
of a connection would have to wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from types import TracebackType

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.cues import cues_for, ranked_by_relevance
from agentctx.service.rag.explain import Ranks, ranks_of
from agentctx.service.rag.fuse import fuse, merge
from agentctx.service.rag.periods import Period, narrowed
from agentctx.service.rag.question import Question
from agentctx.service.rag.ranking import rank, searched_texts, with_neighbours
from agentctx.service.rag.relevance import Calibration, log_odds, probability, relevance, relevance_by_words
from agentctx.service.rag.unmeasured import leader, leader_first, to_choose_from, worth_reading
from agentctx.service.rag.word_match import QuestionWords
from agentctx.storage.search import (
    ChunksWithTurns,
    Distances,
    Nearest,
    NearestChunk,
    Neighbours,
    ResolvedChunk,
    SearchWords,
    Steps,
    Texts,
    WithTurns,
    WordHit,
    WordResults,
)
from agentctx.storage.vectors import Vectors
from agentctx.telemetry import Stage

READ = 20
"""Minimum number of candidates that are read and rated; 40 would improve recall@10 on LoCoMo by .004."""
BEHIND_OF_TURNS = 0.5
"""How much of its distance to the best counts for a turn of a conversation."""
SPARE = 12
"""Number of candidates read beyond the limit, to replace those dropped after reading."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """All candidates of a question, best first: those read and rated, then the rest, with the texts.

    A rated candidate without a text has changed meanwhile. `degraded` says why there was no vector search,
    if there was none.
    """

    rated: Sequence[Candidate]
    rest: Sequence[Candidate]
    texts: Mapping[int, ResolvedChunk]
    degraded: str | None = None
    level: float | None = None
    """How near the question is to texts that answer nothing; None without a calibrated model."""
    words: frozenset[str] = frozenset()
    """The words of the question (`QuestionWords`) that the passages have."""

    @property
    def candidates(self) -> list[Candidate]:
        return [*self.rated, *self.rest]


class Stopwatch:
    """Measures stages in the thread that follows the steps; the event loop reports them."""

    __slots__ = ("_began", "_stage", "measured")

    def __init__(self) -> None:
        self.measured: list[tuple[Stage, float, float]] = []
        """Each stage with its start (`perf_counter`) and its seconds."""

    def stage(self, stage: Stage) -> Stopwatch:
        """Measure a `with` block; the blocks of a question do not overlap."""
        self._stage = stage
        return self

    def __enter__(self) -> None:
        self._began = perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.measured.append((self._stage, self._began, perf_counter() - self._began))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchInput:
    """A question to one namespace, with what is known before the reads.

    `pool` is the number of candidates of each search. Without a `query` vector, words alone are searched;
    `degraded` says why. `calibration` belongs to the model of the query.
    """

    question: Question
    pool: int
    dense_weight: float
    words: QuestionWords
    found: WordResults | None = None
    """What the keyword search found, if it was made before the reads."""
    nearest: Sequence[NearestChunk] | None = None
    """The hits of the vector search, if it was made before the reads."""
    query: Vectors | None = None
    calibration: Calibration | None = None
    degraded: str | None = None
    periods: Sequence[Period] = ()
    """The periods that the question names."""
    stopwatch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def level(self) -> float | None:
        """How near the question is to texts that answer nothing; None without a calibrated model."""
        if self.calibration is None or self.query is None:
            return None
        return self.calibration.level(self.query)


def ranks(search: SearchInput, entry: str) -> Steps[Ranks]:
    """Return the ranks of an entry in both searches."""
    found = yield from by_words(search)
    return ranks_of(entry, found.hits, (yield from nearest(search)), search.pool, search.degraded)


def passages(search: SearchInput) -> Steps[Ranking]:
    """Search, fuse, read and rank."""
    question, stopwatch = search.question, search.stopwatch
    found = yield from by_words(search)
    near = yield from nearest(search)
    distances = yield from _distances(search, found.hits, near)
    with stopwatch.stage("fuse"):
        rarity = search.words.rarity(found.counts)
        fused = fuse(merge(found.hits, near, distances), search.dense_weight, sum(rarity.values()))
    fused = to_choose_from(fused, question.order)
    most = max((each.word_score or 0.0 for each in fused), default=0.0)
    count = max(READ, question.limit + SPARE)
    more = worth_reading(fused[count:]) if search.query is not None else []
    # What a question names exactly may be far from its meaning.
    more += [
        each for each in fused[count:] if each.word_score and each not in more and each.word_score >= most
    ]
    read = [*fused[:count], *more]
    with stopwatch.stage("traits"):
        around: ChunksWithTurns = yield WithTurns(
            [each.chunk for each in read], question.filter, search.query, search.words
        )
    with stopwatch.stage("rank"):
        always = {each.chunk for each in (read if question.order == "distance" else more)}
        ranked = _ranked(search, read, around, rarity, always)
    with stopwatch.stage("resolve"):
        texts: Mapping[int, ResolvedChunk] = yield Texts([each.chunk for each in ranked], question.filter)
    with stopwatch.stage("rate"):
        level, matched = search.level, _matched(search.words, texts)
        readable = [each for each in ranked if each.chunk in texts]
        rated = narrowed(
            _rated(search, readable, texts, matched, around.turns, rarity, level), texts, search.periods
        )
    ranked_only = around.traits.keys() - {each.chunk for each in ranked}
    gone = [each for each in read if each.chunk not in texts.keys() | ranked_only]
    shown = texts.keys() | {each.chunk for each in gone}
    rest = [each for each in fused if each.chunk not in shown]
    words = frozenset[str]().union(*matched.values())
    return Ranking([*rated, *gone], rest, texts, search.degraded, level, words)


def by_words(search: SearchInput) -> Steps[WordResults]:
    """Return what the keyword search finds."""
    if search.found is not None:
        return search.found
    with search.stopwatch.stage("words"):
        found: WordResults = yield SearchWords(search.question.text, search.question.filter, search.pool)
    return found


def nearest(search: SearchInput) -> Steps[Sequence[NearestChunk]]:
    """Return what the vector search finds."""
    if search.nearest is not None or search.query is None:
        return search.nearest or ()
    with search.stopwatch.stage("vectors"):
        hits: list[NearestChunk] = yield Nearest(search.query, search.question.filter, search.pool)
    return hits


def _distances(
    search: SearchInput, word_hits: Sequence[WordHit], near: Sequence[NearestChunk]
) -> Steps[Mapping[int, float]]:
    """Return the distances of texts and cues found only by keyword."""
    measured = {0, *(hit.cue or hit.chunk for hit in near)}
    found = (chunk for hit in word_hits for chunk in (hit.chunk, hit.cue))
    rest = list(dict.fromkeys(chunk for chunk in found if chunk not in measured))
    if search.query is None or not rest:
        return {}
    with search.stopwatch.stage("distances"):
        distances: dict[int, float] = yield Distances(search.query, rest)
    return distances


def _ranked(
    search: SearchInput,
    read: Sequence[Candidate],
    around: ChunksWithTurns,
    rarity: Mapping[str, float],
    always: Collection[int],
) -> list[Candidate]:
    """Rank what was read, together with neighbouring turns; return the best of it, and what is `always`."""
    traits = around.traits
    present = [each for each in read if each.chunk in traits]
    return rank(
        search.question.text,
        with_neighbours(present, around.turns, traits, around.distances),
        traits,
        around.turns,
        rarity=rarity,
        dense_weight=search.dense_weight,
        limit=max(READ, search.question.limit + SPARE),
        always=always,
    )


def _matched(words: QuestionWords, texts: Mapping[int, ResolvedChunk]) -> dict[int, frozenset[str]]:
    """Return the question's words in each text. An index knows them too, but takes more for the same word."""
    found = words.matches_in_each([searched_texts(each) for each in texts.values()])
    return dict(zip(texts, found, strict=True))


def _rated(
    search: SearchInput,
    ranked: Sequence[Candidate],
    texts: Mapping[int, ResolvedChunk],
    matched: Mapping[int, frozenset[str]],
    turns: Neighbours,
    rarity: Mapping[str, float],
    level: float | None,
) -> list[Candidate]:
    """Rate candidates, which keep their order, except that those with cues and a leader move."""
    with_cues = {each.chunk for each in ranked if cues_for(texts[each.chunk])}
    weighed = [
        each._replace(rarity=sum(rarity.get(word, 0.0) for word in matched[each.chunk])) for each in ranked
    ]
    leads, is_degraded = leader(weighed), search.query is None
    words, calibration = search.words, search.calibration
    rated = rate(weighed, matched, words, level, calibration, with_cues, leads, is_degraded=is_degraded)
    if with_cues and level is not None:
        rated = ranked_by_relevance(rated, with_cues)
    rated = less_likely(rated, search.question.tries)
    said = {chunk for of, row in turns.items() for chunk in (of, *row.values())}
    return leader_first(behind_the_best(rated, said), leads)


def less_likely(rated: Sequence[Candidate], tries: int) -> list[Candidate]:
    """Divide the odds of each candidate by the number of tries that found it."""
    if tries == 1:
        return list(rated)
    odds = [log_odds(each.relevance) - math.log(tries) for each in rated]
    return [each._replace(relevance=probability(by)) for each, by in zip(rated, odds, strict=True)]


def behind_the_best(rated: Sequence[Candidate], turns: Collection[int]) -> list[Candidate]:
    """Set by how much each candidate is behind the best: turns by less, because they answer together, and
    what has no vector yet by nothing.
    """
    best = log_odds(max((each.relevance for each in rated if not each.by_words), default=0.0))
    counts = [
        0.0 if each.is_unmeasured else BEHIND_OF_TURNS if each.chunk in turns else 1.0 for each in rated
    ]
    return [
        each._replace(behind=count * (best - log_odds(each.relevance)), is_turn=each.chunk in turns)
        for each, count in zip(rated, counts, strict=True)
    ]


def rate(
    candidates: Sequence[Candidate],
    matched: Mapping[int, frozenset[str]],
    words: QuestionWords,
    level: float | None,
    calibration: Calibration | None,
    with_cues: Collection[int] = (),
    leads: int | None = None,
    *,
    is_degraded: bool = False,
) -> list[Candidate]:
    """Set each candidate's relevance, keeping the order. `matched` holds the question's words in each chunk.

    `level` is that of the question, `with_cues` are the chunks whose cues count, `leads` is the chunk that
    leads (`unmeasured`). In a degraded answer, nothing is measured.
    """
    if level is None:
        calibration = None
    rated = []
    for candidate in candidates:
        chunk = candidate.chunk
        match, by_words = words.count(matched[chunk]), calibration is None or candidate.distance is None
        probability = relevance(
            calibration, candidate.distance, level or 0.0, match, has_cues=chunk in with_cues
        )
        if candidate.is_unmeasured:
            of_words = relevance_by_words(match, leads=chunk == leads, is_degraded=is_degraded)
            by_words = by_words or of_words > probability
            probability = max(probability, of_words)
        rated.append(candidate._replace(relevance=probability, by_words=by_words))
    return rated
