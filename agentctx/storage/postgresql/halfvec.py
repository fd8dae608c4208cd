"""pgvector's `halfvec` in its binary format: as text, a vector would take forty times as long to write."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.postgresql import driver
from agentctx.storage.postgresql.driver import Connection

_HEADER: Final = struct.Struct(">HH")
"""The dimension, and two bytes without a meaning."""
_SCHEMA: Final = """SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'vector'"""


async def register(conn: Connection) -> None:
    """Let statements of a connection take what `encode` returns, and return vectors.

    Nothing in a database without pgvector, which is refused later.
    """
    async with driver.transaction(conn, driver.BEGIN_READING):
        schema = await conn.fetchval(_SCHEMA)
        if schema is not None:
            await conn.set_type_codec(
                "halfvec", schema=schema, encoder=bytes, decoder=decode, format="binary"
            )


def encode(vector: Vectors) -> bytes:
    """Return a vector as the server reads it. The server refuses numbers beyond half precision's 65,504."""
    with np.errstate(over="ignore"):
        return _HEADER.pack(len(vector), 0) + vector.astype(">f2").tobytes()


def decode(sent: bytes) -> Vectors:
    """Return a vector that the server sent."""
    return np.frombuffer(sent, dtype=">f2", offset=_HEADER.size).astype("<f4")
