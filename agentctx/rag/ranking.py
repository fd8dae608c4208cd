"""Rank the candidates, scoring turns of a conversation together with their neighbours. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentctx.rag.conversation import PooledTurn, scores
from agentctx.rag.cues import cues_for
from agentctx.rag.fuse import Candidate, nearness, with_score, word_shares
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
    ranked = list(map(with_score, pool.candidates, found))
    return sorted(ranked, key=lambda candidate: (-candidate.score, candidate.chunk))


def _members(pool: Pool) -> list[PooledTurn]:
    places = {candidate.chunk: at for at, candidate in enumerate(pool.candidates)}
    beside = _rows(pool.turns)
    shares = word_shares(pool.candidates, sum(pool.rarity.values()))
    members = []
    for candidate, near, share in zip(pool.candidates, nearness(pool.candidates), shares, strict=True):
        chunk = candidate.chunk
        said, row = pool.said[chunk], beside.get(chunk)
        if row is not None:
            row = {offset: places[at] for offset, at in row.items() if at in places}
        members.append(PooledTurn(said.text, pool.found[chunk], near, share, said.agent, row))
    return members


def _rows(turns: Turns) -> Turns:
    """Extend the neighbours of each turn to turns that were found only as neighbours."""
    rows: Turns = {chunk: dict(row) for chunk, row in turns.items()}
    for chunk, row in turns.items():
        line = [(0, chunk), *row.items()]
        for here, at in row.items():
            if at not in turns:
                mine = rows.setdefault(at, {})
                for there, other in line:
                    if there != here and -2 <= there - here <= 2:
                        mine[there - here] = other
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
