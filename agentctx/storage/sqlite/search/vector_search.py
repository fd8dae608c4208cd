"""Finds chunks by vectors, and measures them. Read transactions only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentctx.storage.faults import DAMAGED_VECTOR, Faults
from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection
from agentctx.storage.search import Filter, NearestChunk
from agentctx.storage.sqlite.search import filters
from agentctx.storage.sqlite.search.hits import best_per_chunk, resolve_cues
from agentctx.storage.sqlite.vectors.space_index import TOLERANCE, MeasuredChunks, SpaceIndex
from agentctx.storage.sqlite.vectors.vector_cache import ScoredChunks
from agentctx.storage.sqlite.vectors.vector_caches import VectorCaches
from agentctx.storage.sqlite.vectors.verified_vectors import VerifiedVectors
from agentctx.storage.vectors import Vectors

FEW_CHUNKS = 256
"""For up to this many chunks, looking up their vectors beats a scan of the namespace (20 ids take 0.1 ms)."""

MAX_EXCLUDED = 1_024
"""Up to this many excluded chunks, excluding them is cheaper than listing the allowed ones."""

_SUPERSEDED = """SELECT chunks.id FROM json_each(?) hit CROSS JOIN chunks ON chunks.id = hit.value
    CROSS JOIN entries e ON e.seq = chunks.entry
    WHERE EXISTS (SELECT 1 FROM supersessions) AND NOT """
_CHUNK_IDS = "SELECT chunks.id FROM chunks JOIN entries e ON e.seq = chunks.entry WHERE "


def by_vector(
    conn: Connection,
    space: int,
    query: Vectors,
    wanted: Filter,
    limit: int,
    *,
    now: int,
    faults: Faults,
    caches: VectorCaches,
    verified: VerifiedVectors,
) -> list[NearestChunk]:
    """Return the nearest hits. Filters that the index cannot apply are first resolved to ids.

    Hits with a damaged vector are left out.
    """
    narrowing = narrow(conn, wanted, now=now)
    search = _VectorSearch(conn, SpaceIndex(space), query, wanted, narrowing, faults, caches, verified, now)
    return best_per_chunk(lambda count: resolve_cues(conn, search.nearest(count)), limit)


@dataclass(frozen=True, slots=True)
class _VectorSearch:
    """A search by vector in one snapshot."""

    conn: Connection
    index: SpaceIndex
    query: Vectors
    wanted: Filter
    narrowing: NarrowedFilter
    faults: Faults
    caches: VectorCaches
    verified: VerifiedVectors
    now: int

    def nearest(self, limit: int) -> list[NearestChunk]:
        """Return the nearest texts and cues; `cue` says that the chunk is a cue."""
        among = self.narrowing.among
        if among is not None and len(among) <= FEW_CHUNKS:
            return self._measured(among).nearest(limit)
        cache = self.caches.of(self.conn, self.index.space)
        if cache is None:
            return self._in_table(limit)
        scored = cache.score(
            self.query,
            namespace=self.wanted.namespace,
            collections=self.wanted.collections,
            session=self.wanted.session,
            among=among,
            left_out=self.narrowing.left_out,
        )
        return self._best_of(scored, limit)

    def _best_of(self, scored: ScoredChunks, limit: int) -> list[NearestChunk]:
        """Return the nearest by their stored vectors; measure more candidates as long as some are gone."""
        found: dict[int, NearestChunk] = {}
        tried: set[int] = set()
        asked = limit
        while True:
            fresh = [chunk for chunk in scored.candidates(asked) if chunk not in tried]
            tried.update(fresh)
            found.update(self._shown(self._measured(fresh).found))
            if len(found) >= limit or asked >= scored.count:
                return MeasuredChunks(found).nearest(limit)
            asked *= 2

    def _in_table(self, limit: int) -> list[NearestChunk]:
        """Return the nearest found by vec0, which reads every vector of the namespace."""
        asked = limit + len(self.narrowing.left_out)
        while True:
            found = vec0.nearest(
                self.conn,
                self.index.table,
                self.query.tobytes(),
                asked,
                namespace=self.wanted.namespace,
                collections=self.wanted.collections,
                session=self.wanted.session,
                ids=self.narrowing.among,
            )
            kept = self.narrowing.kept(found)
            shown = self._shown(self._measured([chunk for chunk, _ in kept]).found)
            hits = _drop_misplaced(kept, shown, self.faults)
            if len(hits) >= limit or len(found) < asked:
                return hits[:limit]
            asked *= 2

    def _shown(self, found: Mapping[int, NearestChunk]) -> dict[int, NearestChunk]:
        """Leave out what is superseded, unless the question wants it, or allowed only listed chunks."""
        hidden: set[int] = set()
        if self.narrowing.among is None and not self.wanted.with_superseded:
            condition, parameters = filters.not_superseded(self.now)
            rows = self.conn.execute(_SUPERSEDED + condition, (json.dumps(list(found)), *parameters))
            hidden = {row[0] for row in rows}
        return {chunk: hit for chunk, hit in found.items() if chunk not in hidden}

    def _measured(self, chunks: Sequence[int]) -> MeasuredChunks:
        return _note_damaged(self.verified.measure(self.conn, self.query, chunks), self.faults)


def distances(
    conn: Connection, query: Vectors, chunks: Sequence[int], *, faults: Faults, verified: VerifiedVectors
) -> dict[int, float]:
    """Return exact distances of the chunks that have a sound vector."""
    measured = _note_damaged(verified.measure(conn, query, chunks), faults)
    return {chunk: hit.distance for chunk, hit in measured.found.items()}


def rounded_distances(
    conn: Connection,
    space: int,
    query: Vectors,
    chunks: Sequence[int],
    *,
    faults: Faults,
    caches: VectorCaches,
    verified: VerifiedVectors,
) -> dict[int, float]:
    """Return the distances of the chunks that have a vector, from the cache in memory as far as it has them.

    For ranking, where their last digits do not matter: reading a vector takes 15 µs.
    """
    cache = caches.of(conn, space)
    rounded = cache.distances(query, chunks) if cache is not None else {}
    rest = [chunk for chunk in chunks if chunk not in rounded]
    return rounded | distances(conn, query, rest, faults=faults, verified=verified)


def _note_damaged(measured: MeasuredChunks, faults: Faults) -> MeasuredChunks:
    for chunk in measured.damaged:
        faults.record(DAMAGED_VECTOR, chunk)
    return measured


def _drop_misplaced(
    found: Sequence[tuple[int, float]], exact: Mapping[int, NearestChunk], faults: Faults
) -> list[NearestChunk]:
    """Keep the hits whose distance matches their own vector; a damaged index may have returned another's."""
    kept = []
    for chunk, distance in found:
        if chunk in exact and abs(exact[chunk].distance - distance) < TOLERANCE:
            kept.append(exact[chunk]._replace(distance=distance))
        elif chunk in exact:
            faults.record(DAMAGED_VECTOR, chunk)
    return kept


@dataclass(frozen=True, slots=True)
class NarrowedFilter:
    """The conditions of a filter beyond what the indexes can apply.

    `among` are the only chunks allowed; None: all except `left_out`.
    """

    among: list[int] | None = None
    left_out: frozenset[int] = frozenset()

    def kept(self, nearest: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
        """Return the hits that are not left out; the search requests that many more."""
        return [hit for hit in nearest if hit[0] not in self.left_out]


def narrow(conn: Connection, wanted: Filter, *, now: int) -> NarrowedFilter:
    """Resolve a filter to the ids it allows, or to the ids it excludes if these are few.

    Excluded may be entries of an unwanted trust, and quarantined ones that are still in the indexes.
    """
    held = _quarantined_chunks(conn, wanted.namespace)
    if held is not None and not filters.is_narrow(filters.any_trust(wanted)):
        others = _chunks_of_other_trust(conn, wanted) if filters.is_narrow(wanted) else frozenset()
        if others is not None and len(held | others) <= MAX_EXCLUDED:
            return NarrowedFilter(left_out=held | others)
    condition = filters.entry_condition(wanted, now=now)
    return NarrowedFilter([row[0] for row in conn.execute(_CHUNK_IDS + condition.sql, condition.parameters)])


def _quarantined_chunks(conn: Connection, namespace: str) -> frozenset[int] | None:
    """Return quarantined chunks that are still in the indexes; None if they are too many."""
    rows = conn.execute(
        """SELECT chunks.id FROM quarantine CROSS JOIN entries e ON e.id = quarantine.entry AND e.live = 1
           CROSS JOIN chunks ON chunks.entry = e.seq
           WHERE quarantine.state <> 'withdrawn' AND e.namespace = ? LIMIT ?""",
        (namespace, MAX_EXCLUDED + 1),
    ).fetchall()
    return frozenset(row[0] for row in rows) if len(rows) <= MAX_EXCLUDED else None


def _chunks_of_other_trust(conn: Connection, wanted: Filter) -> frozenset[int] | None:
    """Return the chunks of unwanted trust; None if they are too many, or trust `agent` is unwanted."""
    trusts = filters.excluded_trust(wanted)
    if "agent" in trusts:
        return None
    rows = conn.execute(
        f"""{_CHUNK_IDS} e.live = 1 AND e.trust <> 'agent' AND e.namespace = ?
            AND e.trust IN (SELECT value FROM json_each(?)) LIMIT ?""",  # noqa: S608 - constant
        (wanted.namespace, json.dumps(trusts), MAX_EXCLUDED + 1),
    ).fetchall()
    return frozenset(row[0] for row in rows) if len(rows) <= MAX_EXCLUDED else None
