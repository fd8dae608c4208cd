"""Vectors in the server's binary format."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import numpy as np
import pytest

from agentctx.storage.postgresql import halfvec
from agentctx.storage.postgresql.driver import Connection

VECTOR = np.asarray([1 / 3, -2.5, 0, 6e-8, 65_504], dtype=np.float32)


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(database)
    await halfvec.register(connection)
    yield connection
    await connection.close()


async def test_the_binary_and_text_formats_agree(connection: Connection) -> None:
    sent, is_same = await connection.fetchrow(
        "SELECT $1::halfvec, $1::halfvec = $2::text::halfvec", halfvec.encode(VECTOR), str(VECTOR.tolist())
    )
    assert is_same
    assert sent.dtype == np.dtype("<f4")
    assert sent.tolist() == VECTOR.astype(np.float16).tolist()


async def test_numbers_beyond_half_precision_are_refused(connection: Connection) -> None:
    with pytest.raises(asyncpg.DataError):
        await connection.fetchval("SELECT $1::halfvec", halfvec.encode(np.asarray([1e6], dtype=np.float32)))
