"""Finds chunks by words and by vectors, and resolves them to their present text. Read transactions only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from agentctx.errors import StorageCorrupt
from agentctx.storage.chunk_texts import ChunkTexts, Piece, is_chunk, stored_cues
from agentctx.storage.faults import DAMAGED_VECTOR, Faults
from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection
from agentctx.storage.location import LOOK_BACK, locate
from agentctx.storage.passage_traits import WordFinder
from agentctx.storage.search import (
    ChunksWithTurns,
    Filter,
    NearestChunk,
    ResolvedChunk,
    SampledChunk,
    WordHit,
    WordResults,
)
from agentctx.storage.sqlite import checksums
from agentctx.storage.sqlite.entries.rows import (
    CHUNK,
    CONTENT,
    HASH,
    HEADER,
    SELECT_CHUNKS,
    check_row,
    entry_of,
)
from agentctx.storage.sqlite.search import filters, keyword_search, traits, turns
from agentctx.storage.sqlite.search.keyword_search import FindPostings, Statistics, not_in_memory
from agentctx.storage.sqlite.trust import provenance
from agentctx.storage.sqlite.vectors.space_index import TOLERANCE, MeasuredChunks, SpaceIndex
from agentctx.storage.sqlite.vectors.vector_cache import ScoredChunks
from agentctx.storage.sqlite.vectors.vector_caches import VectorCaches
from agentctx.storage.sqlite.vectors.verified_vectors import VerifiedVectors
from agentctx.storage.vectors import Vectors

FEW_CHUNKS = 256
"""For up to this many chunks, looking up their vectors beats a scan of the namespace (20 ids take 0.1 ms)."""

MAX_EXCLUDED = 1_024
"""Up to this many excluded chunks, excluding them is cheaper than listing the allowed ones."""

CUE_OVERFETCH = 3
"""Factor by which more hits are requested if several belong to one entry."""

_Hit = TypeVar("_Hit", WordHit, NearestChunk)
_CUES = """SELECT chunks.id, chunks.cue, chunks.start_at, chunks.end_at, chunks.hash, entries.attributes,
      shown.id
    FROM json_each(?) hit CROSS JOIN chunks ON chunks.id = hit.value AND chunks.cue <> 0
    CROSS JOIN entries ON entries.seq = chunks.entry
    LEFT JOIN chunks shown ON +shown.entry = entries.seq AND +shown.ordinal = 0 AND shown.cue = 0
      AND shown.id = (SELECT id FROM chunks WHERE entry = entries.seq AND ordinal = 0)"""
"""The cues among the hits, each with the first chunk of its entry's text.

Looked up by id, that chunk is read from its row: a damaged index could return the wrong row."""
_TEXT_CHUNKS = (
    "SELECT chunks.id, e.id FROM chunks JOIN entries e ON e.seq = chunks.entry WHERE chunks.cue = 0"
)
_NEWEST_FIRST = "ORDER BY e.updated DESC, e.seq DESC, chunks.id"
_SUPERSEDED = """SELECT chunks.id FROM json_each(?) hit CROSS JOIN chunks ON chunks.id = hit.value
    CROSS JOIN entries e ON e.seq = chunks.entry
    WHERE EXISTS (SELECT 1 FROM supersessions) AND NOT """
_CHUNK_IDS = "SELECT chunks.id FROM chunks JOIN entries e ON e.seq = chunks.entry WHERE "


def by_words(
    conn: Connection,
    question: str,
    wanted: Filter,
    limit: int,
    *,
    now: int,
    statistics: Statistics,
    in_memory: FindPostings = not_in_memory,
) -> WordResults:
    """Return the best hits by BM25; none for a question without words."""
    find = partial(keyword_search.hits_by_words, now=now, statistics=statistics, in_memory=in_memory)
    hits, counts = find(conn, question, wanted)
    return WordResults(_best_per_chunk(lambda count: _resolve_cues(conn, hits(count)), limit), counts)


def _best_per_chunk(find: Callable[[int], list[_Hit]], limit: int) -> list[_Hit]:
    """Return the hits of the first `limit` chunks in order: for each the best by text and the best by a cue.

    `find` returns the first hits; it is asked for more, so that cues of one entry do not displace others.
    """
    count = limit
    hits = find(count)
    while any(hit.cue for hit in hits) and len({hit.chunk for hit in hits}) < limit:
        count *= CUE_OVERFETCH
        more = find(count)
        if len(more) == len(hits):
            break
        hits = more
    chunks = set(list(dict.fromkeys(hit.chunk for hit in hits))[:limit])
    best: dict[tuple[int, bool], _Hit] = {}
    for hit in hits:
        if hit.chunk in chunks:
            best.setdefault((hit.chunk, bool(hit.cue)), hit)
    return list(best.values())


def sample(conn: Connection, limit: int) -> list[SampledChunk]:
    """Sample up to `limit` live chunks of texts, evenly spread over all, without damaged ones."""
    live = "chunks JOIN entries ON entries.seq = chunks.entry AND entries.live = 1 AND chunks.cue = 0"
    ids = [row[0] for row in conn.execute(f"SELECT chunks.id FROM {live} ORDER BY chunks.id")]  # noqa: S608 - constant
    drawn = [ids[len(ids) * number // limit] for number in range(limit)] if len(ids) > limit else ids
    rows = conn.execute(
        f"""SELECT chunks.id, entries.id, entries.namespace, chunks.start_at, chunks.end_at, chunks.hash,
              entries.content, entries.header
            FROM {live} WHERE chunks.id IN (SELECT value FROM json_each(?)) ORDER BY chunks.id""",  # noqa: S608 - constant
        (json.dumps(drawn),),
    )
    return [
        SampledChunk(chunk, entry, namespace, content[start:end])
        for chunk, entry, namespace, start, end, digest, content, header in rows
        if is_chunk(content, start, end, header=header, digest=digest)
    ]


def newest(conn: Connection, wanted: Filter, limit: int, *, now: int) -> list[tuple[int, str]]:
    """Return chunks of texts with their entries: newest entry first, its chunks in order."""
    condition = filters.entry_condition(wanted, now=now)
    sql = f"{_TEXT_CHUNKS} AND {condition.sql} {_NEWEST_FIRST} LIMIT ?"
    return conn.execute(sql, (*condition.parameters, limit)).fetchall()


def count_entries(conn: Connection, namespace: str) -> int:
    """Return the number of live entries in a namespace: 3 ms for 100,000."""
    count: int = conn.execute(
        "SELECT COUNT(*) FROM entries WHERE live = 1 AND namespace = ?", (namespace,)
    ).fetchone()[0]
    return count


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
    return _best_per_chunk(lambda count: _resolve_cues(conn, search.nearest(count)), limit)


def _resolve_cues(conn: Connection, hits: Sequence[_Hit]) -> list[_Hit]:
    """Replace the chunks of cues (`cue`) by the texts they lead to; drop damaged cues."""
    cues = [hit.chunk for hit in hits if hit.cue]
    if not cues:
        return list(hits)
    shown: dict[int, int | None] = {}
    for chunk, *piece, digest, attributes, first in conn.execute(_CUES, (json.dumps(cues),)):
        texts = ChunkTexts("", stored_cues(attributes), "", "", "")
        shown[chunk] = first if texts.is_sound(Piece(*piece), digest) else None
    resolved = []
    for hit in hits:
        if not hit.cue:
            resolved.append(hit)
        elif (text := shown.get(hit.chunk)) is not None:
            resolved.append(hit._replace(chunk=text, cue=hit.chunk))
    return resolved


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


def resolve(
    conn: Connection, chunks: Sequence[int], wanted: Filter, *, now: int, faults: Faults
) -> dict[int, ResolvedChunk]:
    """Return the chunks that are live, unexpired and inside the filter, each with its slice of the content.

    Damaged chunks are left out.
    """
    condition = filters.entry_condition(wanted, now=now)
    rows = conn.execute(
        f"{SELECT_CHUNKS} WHERE {condition.sql}", (json.dumps(list(chunks)), *condition.parameters)
    )
    found = {}
    for row in rows:
        try:
            found[row[CHUNK]] = _resolved(row)
        except StorageCorrupt:
            faults.record("entry", row[1])
    ids = [resolved.entry.id for resolved in found.values()]
    flags, files = provenance.flags_of(conn, ids), provenance.file_states_of(conn, ids)
    for chunk, resolved in found.items():
        if resolved.entry.id in flags or resolved.entry.id in files:
            state = files.get(resolved.entry.id)
            found[chunk] = replace(
                resolved, flags=flags.get(resolved.entry.id, ()), stale=state.reason if state else None
            )
    return found


def chunks_with_turns(
    conn: Connection,
    chunks: Sequence[int],
    wanted: Filter,
    query: Vectors | None,
    words: WordFinder,
    *,
    measure: Callable[[Vectors, Sequence[int]], Mapping[int, float]] | None,
    now: int,
) -> ChunksWithTurns:
    """Return chunks and neighbouring turns from one snapshot, with the distances of these turns.

    `measure` returns the distances of chunks.
    """
    hits = traits.of_chunks(conn, chunks, filters.entry_condition(wanted, now=now))
    around, turn_rows = turns.around(conn, chunks, wanted, now=now)
    beside = {
        chunk: turn_rows[chunk] for row in around.values() for chunk in row.values() if chunk not in hits
    }
    distances = {} if measure is None or query is None else measure(query, list(beside))
    return ChunksWithTurns(traits.traits(conn, hits | beside, words), around, distances)


def _resolved(row: Any) -> ResolvedChunk:
    chunk, start, end, digest = row[CHUNK:]
    check_row(row)
    content, entry = row[CONTENT], entry_of(row, content="")
    if not is_chunk(content, start, end, header=row[HEADER], digest=digest):
        raise StorageCorrupt(f"A chunk of the entry {entry.id!r} is damaged on the disk.")
    if entry.attributes.get("file"):  # its location is counted in the whole content
        checksums.check_content(entry.id, content, row[HASH])
    location = locate(entry.attributes, content, start, end)
    return ResolvedChunk(
        chunk=chunk,
        start=start,
        end=end,
        content=content[start:end],
        entry=entry,
        location=location,
        before=content[max(0, start - LOOK_BACK) : start] if location else "",
    )
