"""Rank the candidates, scoring turns of a conversation together with their neighbours. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentctx.rag.candidate import Candidate
from agentctx.rag.conversation import PooledTurn, scores
from agentctx.rag.cues import cues_for
from agentctx.rag.fuse import nearness, with_score, word_shares
from agentctx.storage.search import RankingText, ResolvedChunk, Turns


@dataclass(frozen=True, slots=True)
class Pool:
    """The best candidates in fused order, with the data to rank them.

    `found` holds the words of the question in each chunk, `rarity` the weight of each word.
    """

    candidates: Sequence[Candidate]
    said: Mapping[int, RankingText]
    turns: Turns
    found: Mapping[int, frozenset[str]]
    rarity: Mapping[str, float]


def with_neighbours(
    candidates: Sequence[Candidate],
    turns: Turns,
    said: Mapping[int, RankingText],
    distances: Mapping[int, float],
) -> list[Candidate]:
    """Append the turns next to the candidates that are not candidates themselves."""
    known = {candidate.chunk for candidate in candidates}
    beside = dict.fromkeys(chunk for row in turns.values() for chunk in row.values() if chunk not in known)
    return [
        *candidates,
        *(
            Candidate(chunk, said[chunk].entry, None, distances.get(chunk))
            for chunk in beside
            if chunk in said
        ),
    ]


def rank(question: str, pool: Pool, dense_weight: float) -> list[Candidate]:
    """Rank the pool, best first. Without conversations, the fused order is kept."""
    if not pool.turns:
        return list(pool.candidates)
    found = scores(question, _members(pool), pool.rarity, dense_weight)
    places = sorted(
        (-score, candidate.chunk, at)
        for at, (score, candidate) in enumerate(zip(found, pool.candidates, strict=True))
    )
    return [with_score(pool.candidates[at], -score) for score, _, at in places]


def _members(pool: Pool) -> list[PooledTurn]:
    places = {candidate.chunk: at for at, candidate in enumerate(pool.candidates)}
    beside = _rows(pool.turns, places)
    shares = word_shares(pool.candidates, sum(pool.rarity.values()))
    members = []
    for candidate, near, share in zip(
        pool.candidates, nearness(pool.candidates, shares), shares, strict=True
    ):
        chunk = candidate.chunk
        said = pool.said[chunk]
        members.append(PooledTurn(said.text, pool.found[chunk], near, share, said.agent, beside.get(chunk)))
    return members


def _rows(turns: Turns, places: Mapping[int, int]) -> dict[int, dict[int, int]]:
    """Return the places of each turn's neighbours, also for turns that were found only as neighbours."""
    rows: dict[int, dict[int, int]] = {}
    for chunk, row in turns.items():
        line = {offset: places[at] for offset, at in ((0, chunk), *row.items()) if at in places}
        rows[chunk] = {offset: place for offset, place in line.items() if offset}
        for here, at in row.items():
            if at not in turns:
                mine = rows.setdefault(at, {})
                for there, place in line.items():
                    if there != here and -2 <= there - here <= 2:
                        mine[there - here] = place
    return rows


def ranking_text(resolved: ResolvedChunk) -> RankingText:
    """Reduce a passage to the parts that its ranking uses."""
    entry, attributes = resolved.entry, resolved.entry.attributes
    labels = [entry.key or "", str(attributes.get("trigger") or ""), *(attributes.get("tags") or ())]
    return RankingText(
        entry.id, resolved.content, entry.agent, "\n".join(filter(None, labels)), cues_for(resolved)
    )


def words_of(said: RankingText) -> list[str]:
    """Return the texts whose words count."""
    return [said.text, said.agent, said.labels, *said.cues]
