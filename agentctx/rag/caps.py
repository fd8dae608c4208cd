"""Limit how much of one injection may come from external origins or from one source. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from agentctx.rag.fuse import Candidate
from agentctx.storage.records import Entry
from agentctx.storage.search import ResolvedChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Maximum shares of the passages, above 0 up to 1: of all external ones together, and of each source.

    Each cap allows at least one passage. Trusted entries of `asker` (a uid) have no source, being the asker's
    own; if it is None, no trusted entry has one. With `strict`, places stay empty rather than exceed a cap.
    """

    external: float = 0.5
    source: float = 0.5
    asker: int | None = None
    strict: bool = False


def within_caps(
    chosen: Sequence[Candidate], found: Mapping[int, ResolvedChunk], caps: Caps, limit: int
) -> list[Candidate]:
    """Return the first `limit` candidates that fit the caps, in order.

    Candidates beyond a cap fill the places that would stay empty, unless the caps are strict.
    """
    taken, spare = _divided(chosen, found, caps, limit)
    if not caps.strict:
        taken += spare[: limit - len(taken)]
    places = {candidate.chunk for candidate in taken}
    return [candidate for candidate in chosen if candidate.chunk in places]


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
