"""What the judge reads, and what its scores mean. No I/O.

The judge knows whether a passage helps where similarities and words do not tell, but it takes time. So it
reads the few best passages that the rules do not rule out, and its score is blended with theirs.
docs/relevance.md has the data sets on which the weights were fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.cues import cues_for
from agentctx.service.rag.prompt import is_short, parts_of, queries_of
from agentctx.service.rag.relevance import UNFAMILIAR, log_odds, probability
from agentctx.storage.search import ResolvedChunk

MOST_READ = 4
LEAST_RELEVANCE = 0.05
"""Relevance by the rules below which a passage is not worth reading."""
LONGEST_PASSAGE = 600
"""Characters. Of a longer passage the judge would read a part only, so the rules decide."""
LOOKED_AT = 6
"""How many of the best passages may be read."""


class Blend(NamedTuple):
    """Weights for the log odds that a passage helps: of the judge's score, and of the rules' log odds."""

    judge: float
    rules: float
    constant: float


BLEND = Blend(0.6, 0.6, -0.25)
WITH_PASTE = Blend(0.35, 1.0, 0.0)
"""For a prompt with a paste, of which the judge reads the prose only."""


def left_open(
    candidates: Sequence[Candidate], texts: Mapping[int, ResolvedChunk], level: float | None
) -> list[Candidate]:
    """Return the candidates with texts that the judge should read, most relevant first.

    There are none for a question of unknown `level` (`Calibration.level`), and for one in a language that the
    model does not know. What words alone decided is not open, nor are turns and long passages.
    """
    if level is None or level > UNFAMILIAR:
        return []
    present = [each for each in candidates if each.chunk in texts]
    worth = [
        each
        for each in present[:LOOKED_AT]
        if _is_open(each) and len(texts[each.chunk].content) <= LONGEST_PASSAGE
    ]
    return sorted(worth, key=lambda each: -each.relevance)[:MOST_READ]


def _is_open(candidate: Candidate) -> bool:
    # A turn answers together with its neighbours, which the rules see, and the judge does not.
    return candidate.relevance >= LEAST_RELEVANCE and not (candidate.by_words or candidate.is_turn)


def text_to_judge(prompt: str) -> str:
    """Return what is asked in a prompt: all of a short one; of others the prose around a paste, if any."""
    text = prompt.strip()
    if is_short(text):
        return text
    beginning, *prose = queries_of(text)
    return "\n".join(prose) or beginning


def passage_to_judge(passage: ResolvedChunk) -> str:
    """Return what the judge reads of a passage: its cues, by which it may have been found, and its text."""
    cues = ", ".join(cues_for(passage))
    return f"{cues}: {passage.content}" if cues else passage.content


def judged(candidates: Sequence[Candidate], scores: Mapping[int, float], prompt: str) -> list[Candidate]:
    """Set the relevance of the chunks that have a score, and order them among the places that they take."""
    blend = BLEND if is_short(prompt.strip()) else WITH_PASTE
    read = [_blended(each, scores[each.chunk], blend) for each in candidates if each.chunk in scores]
    read = _behind_the_best(read, has_parts=bool(parts_of(prompt)))
    best_first = iter(sorted(read, key=lambda each: -each.relevance))
    return [next(best_first) if each.chunk in scores else each for each in candidates]


def _behind_the_best(read: Sequence[Candidate], *, has_parts: bool) -> list[Candidate]:
    """Set by how much each is behind the best. The best answer to a part of a prompt stays near, because the
    judge reads all parts at once.
    """
    best = log_odds(max((each.relevance for each in read), default=0.5))
    behind = [best - log_odds(each.relevance) for each in read]
    if has_parts:
        behind = [min(each.behind, by) for each, by in zip(read, behind, strict=True)]
    return [each._replace(behind=by) for each, by in zip(read, behind, strict=True)]


def _blended(candidate: Candidate, score: float, blend: Blend) -> Candidate:
    odds = blend.judge * score + blend.rules * log_odds(candidate.relevance) + blend.constant
    return candidate._replace(relevance=probability(odds), by_judge=True)
