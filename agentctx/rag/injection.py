"""Which candidates are worth a place in an LLM call, step by step. No I/O.

ranked ──floor──share──limit──► read ──stale──flagged──floor──present──duplicate──►
the answer ──cap──limit──budget──► block
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentctx.rag.caps import Caps, within_caps
from agentctx.rag.duplicates import ConversationTexts, without_duplicates
from agentctx.rag.floor import Floor
from agentctx.rag.fuse import Candidate
from agentctx.rag.select import shared_out, within_floor
from agentctx.rag.trace import Trace
from agentctx.rag.word_match import QuestionWords
from agentctx.storage.records import ResolvedChunk

SPARE = 12
"""Candidates read beyond the limit, for those that are left out once they have been read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionRules:
    """What may be injected.

    `floor` None: everything that was found. `max_distance` is that of the question, 0 keeps all.
    """

    floor: Floor | None = None
    max_distance: float = 0.0
    conversation: ConversationTexts = field(default_factory=ConversationTexts)
    caps: Caps = field(default_factory=Caps)
    with_flagged: bool = True
    """Whether text shaped like instructions may be in it: not where an LLM obeys what it reads."""


def worth_reading(
    ranked: Sequence[Candidate], rules: InjectionRules, trace: Trace, *, max_per_entry: int, most: int
) -> list[Candidate]:
    """By their figures alone: near enough at best, few of one entry, the first `most`."""
    near = within_floor(ranked, rules.max_distance, keep_unmeasured=True)
    if rules.floor is not None:
        near = within_floor(near, rules.floor.max_distance, keep_unmeasured=True)
    near = trace.kept("floor", ranked, near)
    shared = trace.kept("share", near, shared_out(near, max_per_entry))
    return trace.kept("limit", shared, shared[:most])


def worth_telling(
    candidates: Sequence[Candidate],
    found: Mapping[int, ResolvedChunk],
    question: str,
    rules: InjectionRules,
    trace: Trace,
) -> list[Candidate]:
    """By their texts: still there, above the floor, not in the conversation, no two alike."""
    texts = {chunk: resolved.content for chunk, resolved in found.items()}
    live = trace.kept("stale", candidates, [c for c in candidates if c.chunk in found])
    if not rules.with_flagged:
        live = trace.kept("flagged", live, [c for c in live if not found[c.chunk].flags])
    close = trace.kept("floor", live, _above_floor(live, found, question, rules.floor))
    new = trace.kept("present", close, [c for c in close if not rules.conversation.holds(texts[c.chunk])])
    distinct = without_duplicates(new, texts)
    trace.duplicates(distinct.of)
    return trace.kept("duplicate", new, distinct.kept)


def given_places(
    chosen: Sequence[Candidate],
    found: Mapping[int, ResolvedChunk],
    rules: InjectionRules,
    trace: Trace,
    limit: int,
) -> list[Candidate]:
    """By the places there are: `limit`, of which few for what comes from one source or from outside."""
    kept = within_caps(chosen, found, rules.caps, limit)
    trace.kept("limit", chosen, kept)
    trace.kept("cap", chosen[:limit], kept)
    return kept


def _above_floor(
    candidates: Sequence[Candidate], found: Mapping[int, ResolvedChunk], question: str, floor: Floor | None
) -> list[Candidate]:
    if floor is None:
        return list(candidates)
    words = QuestionWords(question)
    return [c for c in candidates if floor.passes(c.distance, words.match(said_by(found[c.chunk])))]


def said_by(resolved: ResolvedChunk) -> list[str]:
    """What words of a passage count: its text, and the key, trigger and tags of its entry."""
    attributes = resolved.entry.attributes
    labels = [resolved.entry.key or "", str(attributes.get("trigger") or ""), *(attributes.get("tags") or ())]
    return [resolved.content, resolved.entry.agent, *labels]
