"""Choose the candidates to inject into an LLM call, step by step. No I/O.

ranked ──limit──► read ──stale──flagged──distance──twin──relevance──present──duplicate──share──►
the answer ──cap──limit──budget──► block

Before duplicates are dropped, what was saved on purpose comes first, and newer versions before older ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentctx.service.rag.candidate import Candidate, Trace
from agentctx.service.rag.duplicates import ConversationTexts, without_duplicates
from agentctx.service.rag.precedence import arranged, newest_versions, with_newest
from agentctx.service.rag.relevance import BY_WORDS, Gate
from agentctx.service.rag.select import Caps, limit_per_entry, within_caps, within_floor
from agentctx.storage.search import ResolvedChunk

MIN_IDENTIFIED = 0.1
"""Relevance required of a passage that has the very identifier, whatever the gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionRules:
    """The rules for what may be injected.

    A `gate` of None admits any relevance. `max_distance` is the question's; 0 keeps everything.
    """

    question: str = ""
    gate: Gate | None = None
    max_distance: float = 0.0
    conversation: ConversationTexts = field(default_factory=ConversationTexts)
    caps: Caps = field(default_factory=Caps)
    with_flagged: bool = True
    """Whether text that resembles instructions is allowed: not where an LLM obeys what it reads."""


def select_candidates(
    candidates: Sequence[Candidate],
    found: Mapping[int, ResolvedChunk],
    rules: InjectionRules,
    trace: Trace,
    *,
    max_per_entry: int,
) -> list[Candidate]:
    """Keep, in order, candidates that are live, relevant, not present, distinct, and few per entry."""
    live = trace.kept("stale", candidates, [c for c in candidates if c.chunk in found])
    if not rules.with_flagged:
        live = trace.kept("flagged", live, [c for c in live if not found[c.chunk].flags])
    near = trace.kept("distance", live, within_floor(live, rules.max_distance, keep_unmeasured=True))
    if rules.gate is not None:
        near = trace.kept("twin", near, [c for c in near if c.names not in {"twin", "unknown"}])
    admitted = _admitted(near, rules.gate)
    newest = newest_versions(admitted, near, found, rules.question)
    relevant = trace.kept("relevance", near, with_newest(admitted, near, newest))
    texts = {chunk: resolved.content for chunk, resolved in found.items()}
    there = rules.conversation
    shown = {c.chunk for c in relevant if there.holds(texts[c.chunk]) or there.has_turn(found[c.chunk].entry)}
    new = [c for c in relevant if not {c.chunk, newest.get(c.chunk, c).chunk} & shown]
    new = arranged(trace.kept("present", relevant, new), found, rules.question)
    distinct = without_duplicates(new, texts)
    trace.duplicates(distinct.of)
    kept = trace.kept("duplicate", new, distinct.kept)
    return trace.kept("share", kept, limit_per_entry(kept, max_per_entry))


def apply_caps(
    chosen: Sequence[Candidate],
    found: Mapping[int, ResolvedChunk],
    rules: InjectionRules,
    trace: Trace,
    limit: int,
) -> list[Candidate]:
    """Take the first `limit` candidates, subject to the caps on each source and on external origins."""
    kept = within_caps(chosen, found, rules.caps, limit)
    trace.kept("limit", chosen, kept)
    trace.kept("cap", chosen[:limit], kept)
    return kept


def _is_identified(candidate: Candidate) -> bool:
    return candidate.names == "exact" and candidate.relevance >= MIN_IDENTIFIED


def _admitted(candidates: Sequence[Candidate], gate: Gate | None) -> list[Candidate]:
    """Keep candidates that pass the gate, have the very identifier, or, rated by words, have enough."""
    if gate is None:
        return list(candidates)
    relevances = [0.0 if each.by_words else each.relevance for each in candidates]
    passes = gate.admits(relevances, [each.behind for each in candidates])
    return [
        each
        for each, is_in in zip(candidates, passes, strict=True)
        if is_in or _is_identified(each) or (each.by_words and each.relevance >= BY_WORDS)
    ]
