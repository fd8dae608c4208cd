"""Keyword and vector search, the current text of the hits with the turns around them, and samples."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from agentctx.errors import StorageCorrupt
from agentctx.storage.chunk_texts import is_chunk, stored_cues
from agentctx.storage.faults import Faults
from agentctx.storage.location import locate
from agentctx.storage.passage_traits import PassageTraits, TextTraits, WordFinder, traits_of
from agentctx.storage.search import (
    REACH,
    TURNS_OF,
    ChunksWithTurns,
    Distances,
    Filter,
    Nearest,
    Neighbours,
    ResolvedChunk,
    SaidAround,
    SampledChunk,
    SearchStorage,
    SearchWords,
    Steps,
    Texts,
    WithTurns,
    WordResults,
    neighbours,
)
from agentctx.storage.vectors import Vectors
from agentctx_postgresql import sql
from agentctx_postgresql.connections import PostgresqlConnections, PostgresqlPart, queries
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries.rows import SELECT_CHUNKS, entry_of, verified
from agentctx_postgresql.search import keyword_search, vector_search
from agentctx_postgresql.search.filters import Parameters, entry_condition
from agentctx_postgresql.search.term_counts import CommonTerms
from agentctx_postgresql.vectors.nearest_index import CompleteIndexes

T = TypeVar("T")

_NEWEST: Final = """SELECT chunks.id AS chunk, e.id AS entry
    FROM chunks JOIN entries e ON e.seq = chunks.entry WHERE chunks.cue = 0 AND {}
    ORDER BY e.updated DESC, e.seq DESC, chunks.id LIMIT {}"""
# Of `total` chunks in order, take the one at `total * number / limit` for each number below the limit.
_SAMPLE: Final = """SELECT c.id, e.id AS entry, e.namespace, e.content, e.header, c.start_at, c.end_at, c.hash
    FROM (SELECT chunks.id, row_number() OVER (ORDER BY chunks.id) - 1 AS place, count(*) OVER () AS total
          FROM chunks JOIN entries ON entries.seq = chunks.entry AND entries.live WHERE chunks.cue = 0) every
    JOIN chunks c ON c.id = every.id JOIN entries e ON e.seq = c.entry
    WHERE total <= $1 OR total * ((place * $1 + total - 1) / total) / $1 = place ORDER BY c.id"""


async def newest(conn: Connection, wanted: Filter, limit: int, *, now: int) -> list[tuple[int, str]]:
    """Return chunks of texts with their entries: newest entry first, its chunks in order."""
    parameters = Parameters()
    sql = _NEWEST.format(entry_condition(wanted, parameters, now=now), parameters.add(limit))
    return [(row["chunk"], row["entry"]) for row in await conn.fetch(sql, *parameters)]


async def count_entries(conn: Connection, namespace: str) -> int:
    """Count the live entries of a namespace."""
    return int(await conn.fetchval("SELECT count(*) FROM entries WHERE live AND namespace = $1", namespace))


async def sample(conn: Connection, limit: int) -> list[SampledChunk]:
    """Sample up to `limit` live text chunks evenly, omitting damaged ones."""
    return [
        SampledChunk(row["id"], row["entry"], row["namespace"], text)
        for row in await conn.fetch(_SAMPLE, limit)
        if (text := _sound_text(row)) is not None
    ]


async def resolve(
    conn: Connection, chunks: Sequence[int], wanted: Filter, *, now: int, faults: Faults
) -> dict[int, ResolvedChunk]:
    """Return the chunks that are live, unexpired and within the filter, with their slice of the content.

    Damaged chunks are omitted.
    """
    found = {}
    for row in await _rows(conn, chunks, wanted, now=now):
        try:
            found[row["chunk"]] = _chunk_of(row)
        except StorageCorrupt:
            faults.record("entry", row["id"])
    return found


async def chunks_with_turns(
    conn: Connection,
    chunks: Sequence[int],
    wanted: Filter,
    query: Vectors | None,
    words: WordFinder,
    *,
    space: int | None,
    now: int,
) -> ChunksWithTurns:
    """Return the chunks and their neighbouring turns, with the distances of the turns.

    Two statements: a turn that is deleted between them is in `turns`, but has no traits.
    """
    around = await _turns_around(conn, chunks, wanted, now=now)
    beside = {chunk for row in around.values() for chunk in row.values()}.difference(chunks)
    rows = await _rows(conn, [*chunks, *beside], wanted, query if beside else None, space=space, now=now)
    distances = {row["chunk"]: row["distance"] for row in rows if row["chunk"] in beside}
    return ChunksWithTurns(_traits(rows, words), around, vector_search.finite(distances))


def _traits(rows: Sequence[Any], words: WordFinder) -> dict[int, PassageTraits]:
    sound = [(row, text) for row in rows if (text := _sound_text(row)) is not None]
    cues = (() if row["start_at"] else stored_cues(row["attributes"]) for row, _ in sound)
    texts = [
        [text, row["agent"], row["labels"], *more] for (row, text), more in zip(sound, cues, strict=True)
    ]
    found = words.matches_in_each(texts)
    return {
        row["chunk"]: _passage(row, traits_of(text), each)
        for (row, text), each in zip(sound, found, strict=True)
    }


def _passage(row: Any, text: TextTraits, found: frozenset[str]) -> PassageTraits:
    return PassageTraits(row["id"], text.words, row["agent"] or text.speaker, text.asks, text.times, found)


async def _rows(
    conn: Connection,
    chunks: Sequence[int],
    wanted: Filter,
    query: Vectors | None = None,
    *,
    space: int | None = None,
    now: int,
) -> list[Any]:
    parameters = Parameters([list(chunks)])
    condition = entry_condition(wanted, parameters, now=now)
    distance = "NULL"
    if space is not None and query is not None:
        distance = vector_search.distance_sql(space, query, parameters)
    rows: list[Any] = await conn.fetch(
        f"{SELECT_CHUNKS.format(distance=distance)} WHERE {condition}", *parameters
    )
    return rows


def _chunk_of(row: Any) -> ResolvedChunk:
    text = _sound_text(row)
    entry = entry_of(row, content="")
    if text is None:
        raise StorageCorrupt(f"A chunk of the entry {entry.id!r} is damaged on the disk.")
    if entry.attributes.get("file"):  # its location depends on the whole content
        verified(row)
    return ResolvedChunk(
        chunk=row["chunk"],
        start=row["start_at"],
        end=row["end_at"],
        content=text,
        entry=entry,
        location=locate(entry.attributes, row["content"], row["start_at"], row["end_at"]),
        flags=tuple(row["flags"]),
        stale=row["stale"],
    )


def _sound_text(row: Any) -> str | None:
    """Return the text of a chunk, or None if it is damaged."""
    start, end = row["start_at"], row["end_at"]
    is_sound = is_chunk(row["content"], start, end, header=row["header"], digest=row["hash"])
    return row["content"][start:end] if is_sound else None


_TURN = "(SELECT min(id) FROM chunks WHERE entry = {seq} AND cue = 0 HAVING count(*) = 1)"
_SIDE = """ARRAY(SELECT {turn} FROM entries e WHERE e.session <> '' AND e.namespace = here.namespace
      AND e.collection = here.collection AND e.session = here.session
      AND (e.created, e.seq) {comparison} (here.created, here.seq) AND {condition}
    ORDER BY e.created {order}, e.seq {order} LIMIT {reach})"""
_SAID_AROUND = """SELECT chunks.id, {turn}, {before}, {after}
    FROM chunks JOIN entries here ON here.seq = chunks.entry
    WHERE chunks.id = ANY({chunks}) AND here.live AND here.session <> '' AND here.collection = {turns_of}"""


async def _turns_around(conn: Connection, chunks: Sequence[int], wanted: Filter, *, now: int) -> Neighbours:
    """Return the chunks next to those in a conversation that are within the filter."""
    parameters = Parameters()
    condition = entry_condition(wanted, parameters, now=now)
    side = partial(_SIDE.format, turn=_TURN.format(seq="e.seq"), condition=condition, reach=REACH)
    sql = _SAID_AROUND.format(
        turn=_TURN.format(seq="here.seq"),
        before=side(comparison="<", order="DESC"),
        after=side(comparison=">", order="ASC"),
        chunks=parameters.add(list(chunks)),
        turns_of=parameters.add(TURNS_OF),
    )
    return neighbours({chunk: SaidAround(*row) for chunk, *row in await conn.fetch(sql, *parameters)})


async def follow(
    conn: Connection,
    begin: Callable[[], Steps[T]],
    space: int | None,
    *,
    now: int,
    faults: Faults,
    indexes: CompleteIndexes,
    common: CommonTerms,
) -> T:
    """Return the result of the steps. Each read sees what was committed before it."""
    reads: dict[type, Callable[..., Awaitable[Any]]] = {
        SearchWords: partial(keyword_search.by_words, conn, common, now=now),
        Texts: partial(resolve, conn, now=now, faults=faults),
        WithTurns: partial(chunks_with_turns, conn, space=space, now=now),
    }
    if space is not None:
        reads[Nearest] = partial(vector_search.by_vector, conn, indexes, space, now=now)
        reads[Distances] = partial(vector_search.distances, conn, space)
    return await sql.follow(conn, begin(), {kind: _given(find) for kind, find in reads.items()})


def _given(find: Callable[..., Awaitable[Any]]) -> Callable[[Connection, Any], Awaitable[Any]]:
    return lambda _conn, read: find(*read)


class PostgresqlSearch(PostgresqlPart, SearchStorage):
    """`SearchStorage` on a PostgreSQL server."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        super().__init__(connections)
        self._common = CommonTerms()
        self._indexes = CompleteIndexes()

    async def by_words(self, question: str, wanted: Filter, limit: int) -> WordResults:
        now, common = self.db.clock(), self._common
        return await self.db.query(
            lambda conn: keyword_search.by_words(conn, common, question, wanted, limit, now=now)
        )

    async def follow(self, begin: Callable[[], Steps[T]], space: int | None) -> T:
        return await self.db.query(
            partial(
                follow,
                begin=begin,
                space=space,
                now=self.db.clock(),
                faults=self.db.faults,
                indexes=self._indexes,
                common=self._common,
            )
        )

    async def newest(self, wanted: Filter, limit: int) -> list[tuple[int, str]]:
        now = self.db.clock()
        return await self.db.query(lambda conn: newest(conn, wanted, limit, now=now))

    distances = queries(vector_search.distances)
    count_entries = queries(count_entries)
    sample_chunks = queries(sample)

    @property
    def has_words_in_memory(self) -> bool:
        return False

    @property
    def keyword_gap(self) -> str | None:
        """Always None, because words are rows of a table and change together with their chunk."""
        return None
