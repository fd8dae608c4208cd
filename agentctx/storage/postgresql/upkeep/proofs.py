"""Prove the consistency of stored data by counts, by spaces, and by chunks that must find themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.postgresql import locks
from agentctx.storage.postgresql.connections import (
    CHECK_TIMEOUT_S,
    PostgresqlConnections,
    PostgresqlPart,
    reads,
)
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.entries import chunks
from agentctx.storage.postgresql.search import search, terms
from agentctx.storage.postgresql.search.term_counts import CommonTerms
from agentctx.storage.postgresql.search.terms import QuestionTerm
from agentctx.storage.postgresql.vectors import spaces
from agentctx.storage.proofs import Canary, SpaceVectors
from agentctx.storage.records import SpaceState
from agentctx.storage.search import SampledChunk
from agentctx.storage.stop_words import STOP_WORDS

_TABLES: Final = r"""SELECT substr(relname, 5)::int FROM pg_class
    WHERE relkind = 'r' AND relname ~ '^vec_\d+$' AND relnamespace = current_schema()::regnamespace"""
_NO_WORD: Final = "A-Za-z0-9_'\u0080-\U0010ffff"
_PLAIN_WORD: Final = re.compile(rf"(?<![{_NO_WORD}])[A-Za-z]{{3,40}}(?![{_NO_WORD}])")
"""Separate plain words, which no rule for compounds, other scripts or marks affects."""
_MAX_WORDS: Final = 50


async def _violations(conn: Connection) -> int:
    every = await conn.fetchval("SELECT count(*) FROM chunks")
    vectors = {space: await _count(conn, space) for space in await chunks.prepared(conn)}
    found = sum(max(0, count - every) for count in vectors.values())
    for (space,) in await conn.fetch("SELECT id FROM spaces WHERE enabled"):
        jobs = await conn.fetchval("SELECT count(*) FROM jobs WHERE space = $1", space)
        found += max(0, every - jobs - vectors.get(space, 0))
    return int(found)


async def _by_space(conn: Connection) -> list[SpaceVectors]:
    counts = {space: await _count(conn, space) for (space,) in await conn.fetch(_TABLES)}
    known = [
        SpaceVectors(space.id, space.state, space.enabled, space.fingerprint, counts.pop(space.id, 0))
        for space in await spaces.all_spaces(conn)
    ]
    strangers = [
        SpaceVectors(space, None, enabled=False, fingerprint={}, vectors=count)
        for space, count in counts.items()
    ]
    return sorted([*known, *strangers], key=lambda each: each.space)


async def _remove_leftover(conn: Connection) -> int:
    await locks.lock_spaces(conn)
    removed = 0
    for left in await _by_space(conn):
        if left.vectors and left.state in {None, SpaceState.RETIRED}:
            await spaces.drop_vectors(conn, left.space)
            removed += left.vectors
    return removed


async def _count(conn: Connection, space: int) -> int:
    return int(await conn.fetchval(f"SELECT count(*) FROM vec_{space:d}"))  # noqa: S608 - a number


async def _canaries(conn: Connection, common: CommonTerms, limit: int, max_chunks: int) -> list[Canary]:
    drawn = await search.sample(conn, limit)
    ids = [each.chunk for each in drawn]
    vectors = {space: await _vectors(conn, space, ids) for space in await chunks.prepared(conn)}
    return [
        Canary(
            chunk=each.chunk,
            entry=each.entry,
            namespace=each.namespace,
            word=await _rare_word(conn, common, each, max_chunks),
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
    found = dict.fromkeys(match[0].lower() for match in _PLAIN_WORD.finditer(drawn.text))
    words = [word for word in found if word not in STOP_WORDS][:_MAX_WORDS]
    asked: list[QuestionTerm] = [each for word in words for each in terms.terms_of(word)]
    if not asked:
        return ""
    counts = (await common.counts(conn, asked)).matching
    rarest = min(asked, key=lambda term: counts[term.query])
    return rarest.term.text if counts[rarest.query] <= max_chunks else ""


class PostgresqlProofs(PostgresqlPart):
    """`ProofStorage` on a PostgreSQL server."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        super().__init__(connections)
        self._common = CommonTerms()

    count_violations = reads(_violations)
    vectors_by_space = reads(_by_space, timeout_s=CHECK_TIMEOUT_S)

    async def remove_leftover_vectors(self) -> int:
        return await self.db.write(_remove_leftover, lambda _: self.db.erasures.note_deletion())

    async def canaries(self, limit: int, *, max_chunks: int) -> list[Canary]:
        return await self.db.read(
            lambda conn: _canaries(conn, self._common, limit, max_chunks), CHECK_TIMEOUT_S
        )
