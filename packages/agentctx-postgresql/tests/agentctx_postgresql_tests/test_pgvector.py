"""pgvector's types in their binary formats."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import numpy as np
import pytest

from agentctx_postgresql import pgvector
from agentctx_postgresql.driver import Connection

VECTOR = np.asarray([1 / 3, -2.5, 0, 6e-8, 65_504], dtype=np.float32)


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(database)
    await pgvector.register(connection)
    yield connection
    await connection.close()


async def test_the_binary_and_text_formats_of_halfvec_agree(connection: Connection) -> None:
    sent, is_same = await connection.fetchrow(
        "SELECT $1::halfvec, $1::halfvec = $2::text::halfvec",
        pgvector.encode_halfvec(VECTOR),
        str(VECTOR.tolist()),
    )
    assert is_same
    assert sent.dtype == np.dtype("<f4")
    assert sent.tolist() == VECTOR.astype(np.float16).tolist()


async def test_numbers_beyond_half_precision_are_refused(connection: Connection) -> None:
    with pytest.raises(asyncpg.DataError):
        await connection.fetchval(
            "SELECT $1::halfvec", pgvector.encode_halfvec(np.asarray([1e6], dtype=np.float32))
        )


async def test_the_binary_and_text_formats_of_sparsevec_agree(connection: Connection) -> None:
    sent, is_same = await connection.fetchrow(
        "SELECT $1::sparsevec::text, $1::sparsevec = $2::text::sparsevec",
        pgvector.encode_sparsevec({0: 2.5, 999_999_999: -1 / 3}),
        "{1:2.5,1000000000:-0.33333334}/1000000000",
    )
    assert (sent, is_same) == ("{1:2.5,1000000000:-0.33333334}/1000000000", True)


async def test_an_empty_sparsevec_is_accepted(connection: Connection) -> None:
    empty = pgvector.encode_sparsevec({})
    assert await connection.fetchval("SELECT $1::sparsevec::text", empty) == "{}/1000000000"
