"""Rank the candidates, scoring turns of a conversation together with their neighbours. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentctx.rag.conversation import PooledTurn, scores
from agentctx.rag.cues import cues_for
from agentctx.rag.fuse import Candidate, nearness, word_shares
from agentctx.storage.records import ResolvedChunk, Said, Turns


@dataclass(frozen=True, slots=True)
class Pool:
    """The best candidates in fused order, with the data to rank them.

    `found` holds the words of the question in each chunk, `rarity` the weight of each word.
    """

    candidates: Sequence[Candidate]
    said: Mapping[int, Said]
    turns: Turns
    found: Mapping[int, frozenset[str]]
    rarity: Mapping[str, float]


def with_neighbours(
    candidates: Sequence[Candidate],
    turns: Turns,
    said: Mapping[int, Said],
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
    """Rank the pool, best first. Without conversations it keeps its fused order."""
    if not pool.turns:
        return list(pool.candidates)
    found = scores(question, _members(pool), pool.rarity, dense_weight)
    ranked = [
        candidate._replace(score=score) for candidate, score in zip(pool.candidates, found, strict=True)
    ]
    return sorted(ranked, key=lambda candidate: (-candidate.score, candidate.chunk))


def _members(pool: Pool) -> list[PooledTurn]:
    places = {candidate.chunk: at for at, candidate in enumerate(pool.candidates)}
    beside = _rows(pool.turns)
    return [
        PooledTurn(
            text=pool.said[candidate.chunk].text,
            found=pool.found[candidate.chunk],
            nearness=near,
            words=share,
            agent=pool.said[candidate.chunk].agent,
            beside=None
            if candidate.chunk not in beside
            else {offset: places[at] for offset, at in beside[candidate.chunk].items() if at in places},
        )
        for candidate, near, share in zip(
            pool.candidates,
            nearness(pool.candidates),
            word_shares(pool.candidates, sum(pool.rarity.values())),
            strict=True,
        )
    ]


def _rows(turns: Turns) -> Turns:
    """Extend the neighbours of each turn to turns that were found only as neighbours."""
    rows: Turns = {chunk: dict(row) for chunk, row in turns.items()}
    for chunk, row in turns.items():
        line = {0: chunk, **row}
        for here, at in line.items():
            if at in turns:
                continue
            mine = rows.setdefault(at, {})
            mine |= {
                there - here: other
                for there, other in line.items()
                if there != here and abs(there - here) <= 2
            }
    return rows


def said_by(resolved: ResolvedChunk) -> Said:
    """Reduce a passage to the parts that its ranking uses."""
    entry, attributes = resolved.entry, resolved.entry.attributes
    labels = [entry.key or "", str(attributes.get("trigger") or ""), *(attributes.get("tags") or ())]
    return Said(entry.id, resolved.content, entry.agent, "\n".join(filter(None, labels)), cues_for(resolved))


def words_of(said: Said) -> list[str]:
    """Return the texts whose words count."""
    return [said.text, said.agent, said.labels, *said.cues]
