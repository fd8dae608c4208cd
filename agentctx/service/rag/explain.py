"""Explain why an entry is or is not in an injection. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentctx.names import readable
from agentctx.service.rag.candidate import Candidate, ConsideredCandidate
from agentctx.service.rag.prompt import not_looked_up
from agentctx.service.rag.question import Question
from agentctx.service.rag.relevance import Gate
from agentctx.storage.records import Entry
from agentctx.storage.search import Filter, NearestChunk, WordHit
from agentctx.storage.supersession import SupersededState
from agentctx.storage.trust import Provenance
from agentctx.wire import Fate, Verdict


class Explanation(NamedTuple):
    """A verdict, and a sentence with the decisive figures."""

    verdict: Verdict
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The ranks of an entry's best passages by words and by distance, from 1.

    `word` is None if no word matches, `distance` if the entry is not among the `looked_at` nearest or was not
    measured; `degraded` gives the reason if there was no vector search.
    """

    word: int | None
    distance: int | None
    looked_at: int
    degraded: str | None = None


def ranks_of(
    entry: str, words: Sequence[WordHit], near: Sequence[NearestChunk], looked_at: int, degraded: str | None
) -> Ranks:
    """Return the ranks of an entry in both searches."""
    return Ranks(
        word=next((at for at, hit in enumerate(words, start=1) if hit.entry == entry), None),
        distance=next((at for at, hit in enumerate(near, start=1) if hit.entry == entry), None),
        looked_at=looked_at,
        degraded=degraded,
    )


def filtered_out(entry: Entry, search_filter: Filter, also: Sequence[str] = ()) -> Explanation | None:
    """Return why no wording of the question can find a live entry, or None if one can.

    `also` are further namespaces of the question.
    """
    if entry.namespace not in {search_filter.namespace, *also}:
        there, *asked = (repr(readable(each)) for each in (entry.namespace, search_filter.namespace, *also))
        return Explanation(
            "namespace", f"it is in the namespace {there}; the question asks in {', '.join(asked)}"
        )
    if narrowed := _narrowed(entry, search_filter):
        return Explanation("filter", f"the question is limited to {narrowed}")
    if entry.trust not in search_filter.trust:
        return Explanation(
            "trust", f"its trust is {entry.trust}; a system prompt allows only agent and operator"
        )
    return None


def left_out(entry_id: str, known: Provenance, search_filter: Filter) -> Explanation | None:
    """Return why no answer has an entry: quarantine, its file or what is in its place; None if one may."""
    if known.quarantined == "waiting":
        return Explanation("waiting", "nobody has kept it yet: it waits for a review (`agentctx review`)")
    if known.quarantined:
        why = (
            "its source was revoked" if known.quarantined == "revoked" else "its text resembles instructions"
        )
        return Explanation("quarantined", f"it is in quarantine: {why} (`agentctx release {entry_id}`)")
    if (file := known.file_state) and file.state == "withdrawn":
        message = f"its file no longer says it: {file.reason} (`agentctx ingest --status`)"
        return Explanation("withdrawn", message)
    if known.superseded and not search_filter.with_superseded:
        return Explanation("superseded", _superseded(known.superseded))
    return None


def _superseded(why: SupersededState) -> str:
    nearest, *later = why.by
    chain = f", and {', '.join(later)} {'supersede' if later[1:] else 'supersedes'} that" if later else ""
    verb = "supersedes" if why.closed == "superseded" else "resolves"
    return f"entry {nearest} {verb} it{chain} (`agentctx search --superseded`)"


def _narrowed(entry: Entry, search_filter: Filter) -> str | None:
    """Return the first condition of the filter that the entry does not meet."""
    missing = [tag for tag in search_filter.tags if tag not in (entry.attributes.get("tags") or ())]
    collections, category = search_filter.collections, entry.attributes.get("category")
    unmet = {
        f"the collections {', '.join(collections or ())}; it is in {entry.collection}": (
            collections is not None and entry.collection not in collections
        ),
        f"the session {search_filter.session!r}; it belongs to {entry.session!r}": (
            search_filter.session is not None and entry.session not in {search_filter.session, ""}
        ),
        f"the agent {search_filter.agent!r}": search_filter.agent not in {None, entry.agent},
        f"the category {search_filter.category!r}": search_filter.category not in {None, category},
        f"the tag {', '.join(missing)!r}": bool(missing),
        "newer entries": search_filter.since is not None and entry.updated < search_filter.since,
        "older entries": search_filter.until is not None and entry.updated >= search_filter.until,
    }
    return next((condition for condition, is_unmet in unmet.items() if is_unmet), None)


_ORDER: tuple[Fate, ...] = (
    "injected", "budget", "cap", "limit", "share", "duplicate",
    "present", "relevance", "twin", "distance", "flagged", "stale",
)  # fmt: skip


def best_of(considered: Sequence[ConsideredCandidate]) -> ConsideredCandidate | None:
    """Return the passage that survived the most steps."""
    return min(considered, key=lambda each: _ORDER.index(each.fate), default=None)


def not_asked(question: Question, *, is_on: bool) -> Explanation | None:
    """Return why the question finds nothing at all, whatever is saved; None if it is looked up."""
    if not is_on:
        return Explanation("off", "embedding.rag.enabled is false: nothing is looked up")
    reason = not_looked_up(question.text, everything=question.everything)
    return Explanation("no_question", reason) if reason else None


def explain_not_found(
    entry: Entry, where: Ranks, degraded: str | None = None, also: Sequence[str] = ()
) -> Explanation:
    """Explain why none of an entry's passages was a candidate for a question that has namespaces `also`.

    `degraded` says why the injection had no vector search, even if `where` had one.
    """
    distance, degraded = None if degraded else where.distance, degraded or where.degraded
    if where.word is None and entry.pending:
        return Explanation("no_vector", "it is not embedded yet, and it has none of the question's words")
    if where.word is None and distance is None:
        by_meaning = degraded or f"it is not among the {where.looked_at} nearest"
        return Explanation("no_match", f"it has none of the question's words; {by_meaning}")
    ranks = {"keyword": where.word, "meaning": distance}
    shown = " and ".join(f"#{rank} by {name}" for name, rank in ranks.items() if rank is not None)
    return Explanation("limit", f"others rank higher: it is {shown}{' in its namespace' if also else ''}")


def explain_fate(
    best: ConsideredCandidate, *, fused_rank: int, limit: int, gate: Gate | None, share: int
) -> Explanation:
    """Explain the fate of an entry's best passage in one sentence."""
    messages: dict[Fate, str] = {
        "injected": "it is in the block",
        "relevance": _below(best.candidate, gate),
        "twin": _twin(best.candidate),
        "distance": "it is farther than the question allows (embedding.rag.max_distance)",
        "share": f"better passages of the same entry take its {share} places (embedding.rag.max_per_entry)",
        "limit": f"others rank higher: it is #{fused_rank} of those found, and {limit} are used",
        "stale": "it changed or was removed during the search; ask again",
        "flagged": "its text resembles instructions to an LLM, which no system prompt may contain",
        "cap": "the block has enough from its source or from external entries (injection.max_share_source, "
        "injection.max_share_external)",
        "present": "the conversation already contains its text, or a newer version of it",
        "duplicate": f"entry {best.duplicate_of} says the same",
        "budget": "the block has no room left for it (embedding.rag.budget_tokens)",
        "refused": "the vendor refused the call with this block, and got it without",
    }
    return Explanation(best.fate, messages[best.fate])


def _twin(candidate: Candidate) -> str:
    if candidate.names == "unknown":
        return "the question is about a name that nothing found has; only others of its kind are known"
    return "it names another of the kind that the question names (see docs/relevance.md)"


def _below(candidate: Candidate, gate: Gate | None) -> str:
    if candidate.by_words:
        why = "it has no distance" if candidate.distance is None else "the model is not calibrated"
        return f"{why}, so words decide, and it has too few of the question's words"
    needed = "" if gate is None else f"; the best passage needs {gate.best:.2f}, others {gate.further:.2f}"
    if gate is not None and candidate.relevance >= gate.further and candidate.behind > gate.behind:
        return f"its relevance is {candidate.relevance:.2f}, and that of another passage far higher"
    return f"its relevance is {candidate.relevance:.2f}{needed} (injection.eagerness)"
