"""Proves that stored data is consistent: by a census, quick counts, and chunks that must find themselves.

Each condition of the invariant concerns only one chunk, so the census counts slices of ids, each in its own
snapshot: a long snapshot would keep dead rows from being removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentctx.storage.proofs import Canary, CountVectors, FindCanaries, plain_words
from agentctx.storage.records import Census
from agentctx.storage.search import SampledChunk
from agentctx.storage.vectors import Vectors
from agentctx_postgresql import sql
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks
from agentctx_postgresql.search import search, terms
from agentctx_postgresql.search.term_counts import CommonTerms
from agentctx_postgresql.search.terms import QuestionTerm

FIRST_ID: Final = -(2**63)
LAST_ID: Final = 2**63 - 1
IDS_PER_SLICE: Final = 50_000

LIVE: Final = """EXISTS (SELECT 1 FROM chunks c JOIN entries e ON e.seq = c.entry AND e.live
    WHERE c.id = {chunk})"""
_COUNT: Final = """WITH live AS (SELECT c.id FROM chunks c JOIN entries e ON e.seq = c.entry AND e.live
      WHERE c.id BETWEEN $1 AND $2)
    SELECT CASE WHEN $1 = {first} THEN (SELECT count(*) FROM entries WHERE live) ELSE 0 END,
      (SELECT count(*) FROM chunks WHERE id BETWEEN $1 AND $2), (SELECT count(*) FROM live),
      (SELECT count(*) FROM jobs WHERE chunk BETWEEN $1 AND $2 AND (
         NOT EXISTS (SELECT 1 FROM chunks WHERE id = jobs.chunk)
         OR space NOT IN (SELECT id FROM spaces WHERE enabled))),
      (SELECT count(*) FROM chunk_words w WHERE chunk BETWEEN $1 AND $2
         AND NOT EXISTS (SELECT 1 FROM chunks WHERE id = w.chunk)),
      (SELECT count(*) FROM live WHERE NOT EXISTS (SELECT 1 FROM chunk_words w WHERE w.chunk = live.id))"""
_VECTORS: Final = """SELECT count(*), count(*) FILTER (WHERE NOT {live}) FROM vec_{space:d} v
    WHERE chunk BETWEEN $1 AND $2"""
_WITHOUT_JOB: Final = """SELECT count(*) FROM chunks c JOIN entries e ON e.seq = c.entry AND e.live
    WHERE c.id BETWEEN $1 AND $2
      AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.chunk = c.id AND jobs.space = $3){no_vector}"""
_NO_VECTOR: Final = " AND NOT EXISTS (SELECT 1 FROM vec_{space:d} v WHERE v.chunk = c.id)"
_TABLES: Final = r"""SELECT substr(relname, 5)::int FROM pg_class
    WHERE relkind = 'r' AND relname ~ '^vec_\d+$' AND relnamespace = current_schema()::regnamespace"""
_MAX_WORDS: Final = 50


async def take_slice(conn: Connection, first: int = FIRST_ID) -> tuple[Census, int | None]:
    """Count `IDS_PER_SLICE` ids from `first`; also return the start of the next slice, None at the end."""
    highest = await conn.fetchval("SELECT coalesce(max(id), 0) FROM chunks")
    last = max(first, 0) + IDS_PER_SLICE - 1
    following = last + 1 if last < highest else None
    return await _count_slice(conn, first, LAST_ID if following is None else last), following


async def _count_slice(conn: Connection, first: int, last: int) -> Census:
    entries, every, live, stray_jobs, stray_words, wordless = await conn.fetchrow(
        _COUNT.format(first=FIRST_ID), first, last
    )
    prepared = await chunks.prepared(conn)
    vectors = [await _count_vectors(conn, space, first, last) for space in prepared]
    enabled = await conn.fetch("SELECT id FROM spaces WHERE enabled")
    unowed = [await _chunks_without_job(conn, space, space in prepared, first, last) for (space,) in enabled]
    return Census(
        entries=entries,
        chunks=every,
        vectors=sum(count for count, _ in vectors),
        chunks_without_job=sum(unowed),
        orphan_vectors=sum(stray for _, stray in vectors),
        orphan_jobs=stray_jobs,
        orphan_chunks=every - live,
        words_without_chunk=stray_words,
        chunks_without_words=wordless,
    )


async def _count_vectors(conn: Connection, space: int, first: int, last: int) -> tuple[int, int]:
    sql = _VECTORS.format(live=LIVE.format(chunk="v.chunk"), space=space)
    count, stray = await conn.fetchrow(sql, first, last)
    return count, stray


async def _chunks_without_job(conn: Connection, space: int, is_prepared: bool, first: int, last: int) -> int:
    no_vector = _NO_VECTOR.format(space=space) if is_prepared else ""
    return int(await conn.fetchval(_WITHOUT_JOB.format(no_vector=no_vector), first, last, space))


async def _vectors_by_space(conn: Connection, wanted: CountVectors) -> dict[int, int]:
    found = await chunks.prepared(conn)
    if not wanted.of_prepared:
        found = [space for (space,) in await conn.fetch(_TABLES)]
    return {space: await conn.fetchval(f"SELECT count(*) FROM vec_{space:d}") for space in found}  # noqa: S608 - a number


async def _canaries(conn: Connection, wanted: FindCanaries) -> list[Canary]:
    drawn, common = await search.sample(conn, wanted.limit), CommonTerms()
    ids = [each.chunk for each in drawn]
    vectors = {space: await _vectors(conn, space, ids) for space in await chunks.prepared(conn)}
    return [
        Canary(
            chunk=each.chunk,
            entry=each.entry,
            namespace=each.namespace,
            word=await _rare_word(conn, common, each, wanted.max_chunks),
            vectors={space: stored[each.chunk] for space, stored in vectors.items() if each.chunk in stored},
        )
        for each in drawn
    ]


async def _vectors(conn: Connection, space: int, ids: Sequence[int]) -> dict[int, Vectors]:
    rows = await conn.fetch(
        f"SELECT chunk, embedding FROM vec_{space:d} WHERE chunk = ANY($1)",  # noqa: S608 - a number
        list(ids),
    )
    return dict(rows)


async def _rare_word(conn: Connection, common: CommonTerms, drawn: SampledChunk, max_chunks: int) -> str:
    words = plain_words(drawn.text, _MAX_WORDS)
    asked: list[QuestionTerm] = [each for word in words for each in terms.terms_of(word)]
    if not asked:
        return ""
    counts = (await common.counts(conn, asked)).matching
    rarest = min(asked, key=lambda term: counts[term.query])
    return rarest.term.text if counts[rarest.query] <= max_chunks else ""


PROOF_STATEMENTS: Final[sql.Functions] = {CountVectors: _vectors_by_space, FindCanaries: _canaries}
