"""Select the answer from the ranked candidates, few per entry and limited per source. No I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.relevance import BY_WORDS
from agentctx.storage.records import Entry
from agentctx.storage.search import ResolvedChunk


def select(
    candidates: Sequence[Candidate],
    *,
    limit: int,
    max_per_entry: int,
    max_distance: float = 0.0,
    keep_unmeasured: bool = True,
) -> list[Candidate]:
    """Return the first `limit` candidates within the distance limit, in order, few per entry.

    `max_distance` is a cosine distance; 0 keeps everything. `keep_unmeasured` keeps all candidates without a
    vector: right in a degraded answer, where nothing can be measured. If the others were measured, only those
    with enough of the question's words are kept. An entry gets at most `max_per_entry` passages.
    """
    near = within_floor(candidates, max_distance, keep_unmeasured=keep_unmeasured)
    return limit_per_entry(near, max_per_entry)[:limit]


def within_floor(
    candidates: Sequence[Candidate], max_distance: float, *, keep_unmeasured: bool
) -> list[Candidate]:
    """Keep the candidates within the cosine distance `max_distance`; 0 keeps all."""
    return [c for c in candidates if _is_within(c, max_distance, keep_unmeasured=keep_unmeasured)]


def limit_per_entry(candidates: Sequence[Candidate], max_per_entry: int) -> list[Candidate]:
    """Keep the first `max_per_entry` candidates of each entry."""
    taken: Counter[str] = Counter()
    kept: list[Candidate] = []
    for candidate in candidates:
        if taken[candidate.entry] < max_per_entry:
            taken[candidate.entry] += 1
            kept.append(candidate)
    return kept


def distinct_texts(candidates: Sequence[Candidate], texts: Mapping[int, str]) -> list[Candidate]:
    """Drop candidates whose text is contained in an earlier candidate of the same entry (overlaps).

    `texts` maps chunks to their content; a chunk without content is kept.
    """
    kept: list[Candidate] = []
    shown: defaultdict[str, list[str]] = defaultdict(list)
    for candidate in candidates:
        text = texts.get(candidate.chunk)
        if text is not None:
            if any(text in other for other in shown[candidate.entry]):
                continue
            shown[candidate.entry].append(text)
        kept.append(candidate)
    return kept


def _is_within(candidate: Candidate, max_distance: float, *, keep_unmeasured: bool) -> bool:
    if max_distance <= 0:
        return True
    if candidate.distance is None:
        return keep_unmeasured or candidate.relevance >= BY_WORDS
    return candidate.distance <= max_distance


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Maximum shares of the passages, above 0 up to 1: of all external ones together, and of each source.

    Each cap allows at least one passage. Trusted entries of `asker` (a uid) have no source, being the asker's
    own; if it is None, no trusted entry has one. With `strict`, an answer is shorter rather than over a cap.
    """

    external: float = 0.5
    source: float = 0.5
    asker: int | None = None
    strict: bool = False


def within_caps(
    chosen: Sequence[Candidate], found: Mapping[int, ResolvedChunk], caps: Caps, limit: int
) -> list[Candidate]:
    """Return the first `limit` candidates that fit the caps, in order.

    Candidates beyond a cap fill what is left of the limit, unless the caps are strict.
    """
    taken, spare = _divided(chosen, found, caps, limit)
    if not caps.strict:
        taken += spare[: limit - len(taken)]
    chunks = {candidate.chunk for candidate in taken}
    return [candidate for candidate in chosen if candidate.chunk in chunks]


def _divided(
    chosen: Sequence[Candidate], found: Mapping[int, ResolvedChunk], caps: Caps, limit: int
) -> tuple[list[Candidate], list[Candidate]]:
    """Split the candidates into up to `limit` within the caps, and those skipped meanwhile."""
    max_external, max_per_source = (max(1, int(share * limit)) for share in (caps.external, caps.source))
    external, sources = 0, Counter[Hashable]()
    taken: list[Candidate] = []
    spare: list[Candidate] = []
    for candidate in chosen:
        if len(taken) == limit:
            break
        entry = found[candidate.chunk].entry
        source = source_of(entry, caps.asker)
        is_external = entry.trust == "external"
        if (is_external and external == max_external) or (
            source is not None and sources[source] == max_per_source
        ):
            spare.append(candidate)
            continue
        external += is_external
        sources[source] += source is not None
        taken.append(candidate)
    return taken, spare


def source_of(entry: Entry, asker: int | None) -> Hashable | None:
    """Return the source of an entry: its file or page, the agent in its session, or another user.

    None for the asker's own entries.
    """
    if entry.trust != "external":
        return None if asker is None or entry.principal == asker else ("user", entry.principal)
    if path := entry.attributes.get("source"):
        return (entry.principal, entry.origin, "source", str(path))
    return (entry.principal, entry.origin, entry.agent, entry.session)
