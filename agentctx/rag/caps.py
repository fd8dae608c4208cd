"""How much of one injection may come from where. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from agentctx.rag.fuse import Candidate
from agentctx.storage.records import Entry, ResolvedChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Shares of the passages, above 0 to 1: of all external ones together, and of those of one source.

    Either is at least one passage. Trusted entries of `asker` (a uid) are of no source: they are one's own.
    None: nobody's are. With `strict`, places stay empty rather than being filled beyond a cap.
    """

    external: float = 0.5
    source: float = 0.5
    asker: int | None = None
    strict: bool = False


def within_caps(
    chosen: Sequence[Candidate], found: Mapping[int, ResolvedChunk], caps: Caps, limit: int
) -> list[Candidate]:
    """The first `limit` of the candidates, in their order, without what is beyond a cap.

    What is beyond one gets a place only where nothing else is left for it, and never if they are strict.
    """
    taken, spare = _divided(chosen, found, caps, limit)
    if not caps.strict:
        taken += spare[: limit - len(taken)]
    places = {candidate.chunk for candidate in taken}
    return [candidate for candidate in chosen if candidate.chunk in places]


def _divided(
    chosen: Sequence[Candidate], found: Mapping[int, ResolvedChunk], caps: Caps, limit: int
) -> tuple[list[Candidate], list[Candidate]]:
    """Those within the caps, and those beyond them that stand before the last of the former."""
    most_external, most_of_source = (max(1, int(share * limit)) for share in (caps.external, caps.source))
    external, sources = 0, Counter[Hashable]()
    taken: list[Candidate] = []
    spare: list[Candidate] = []
    for candidate in chosen:
        if len(taken) == limit:
            break
        entry = found[candidate.chunk].entry
        source = source_of(entry, caps.asker)
        is_external = entry.trust == "external"
        if (is_external and external == most_external) or (
            source is not None and sources[source] == most_of_source
        ):
            spare.append(candidate)
            continue
        external += is_external
        sources[source] += source is not None
        taken.append(candidate)
    return taken, spare


def source_of(entry: Entry, asker: int | None) -> Hashable | None:
    """Who answers for an entry: the file or page it is from, the agent in its session, or another user.

    None: the asker.
    """
    if entry.trust != "external":
        return None if asker is None or entry.principal == asker else ("user", entry.principal)
    if path := entry.attributes.get("source"):
        return (entry.principal, entry.origin, "source", str(path))
    return (entry.principal, entry.origin, entry.agent, entry.session)
