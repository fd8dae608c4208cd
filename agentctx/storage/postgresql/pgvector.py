"""pgvector's types in their binary formats: as text, a vector would take forty times as long to write."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import numpy as np

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.postgresql import driver
from agentctx.storage.postgresql.driver import Connection

DIMENSIONS: Final = 1_000_000_000
"""Dimensions of our `sparsevec`: the maximum."""
_HALFVEC: Final = struct.Struct(">HH")
"""The dimension, and two bytes without a meaning."""
_SCHEMA: Final = """SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'vector'"""


async def register(conn: Connection) -> None:
    """Let statements of a connection take encoded vectors, and return a `halfvec` decoded.

    Nothing in a database without pgvector, which is refused later.
    """
    async with driver.transaction(conn, driver.BEGIN_READING):
        schema = await conn.fetchval(_SCHEMA)
        if schema is None:
            return
        for name, decoder in (("halfvec", decode_halfvec), ("sparsevec", bytes)):
            await conn.set_type_codec(name, schema=schema, encoder=bytes, decoder=decoder, format="binary")


def encode_halfvec(vector: Vectors) -> bytes:
    """Return a vector as the server reads it. The server refuses numbers beyond half precision's 65,504."""
    with np.errstate(over="ignore"):
        return _HALFVEC.pack(len(vector), 0) + vector.astype(">f2").tobytes()


def decode_halfvec(sent: bytes) -> Vectors:
    """Return a vector that the server sent."""
    return np.frombuffer(sent, dtype=">f2", offset=_HALFVEC.size).astype("<f4")


def encode_sparsevec(values: Mapping[int, float]) -> bytes:
    """Return a `sparsevec` with these non-zero values by dimension, counted from 0, in ascending order."""
    count = len(values)
    return struct.pack(f">iii{count}i{count}f", DIMENSIONS, count, 0, *values, *values.values())
