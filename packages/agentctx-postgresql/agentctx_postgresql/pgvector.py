"""Binary formats of pgvector's types and `tsvector`: as text, a vector would take forty times as long."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from agentctx.storage.vectors import Vectors
from agentctx_postgresql import driver
from agentctx_postgresql.driver import Connection

DIMENSIONS: Final = 1_000_000_000
"""Dimensions of our `sparsevec`: the maximum."""
_HALFVEC: Final = struct.Struct(">HH")
"""The dimension, and two bytes without a meaning."""
_SPARSEVEC: Final = struct.Struct(">iii")
_SCHEMA: Final = """SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'vector'"""


async def register(conn: Connection) -> None:
    """Let statements of a connection take encoded values, and return a `halfvec` decoded.

    Nothing in a database without pgvector, which is refused later.
    """
    async with driver.transaction(conn, driver.BEGIN_READING):
        installed_in = await conn.fetchval(_SCHEMA)
        if installed_in is None:
            return
        for name, schema, decoder in (
            ("halfvec", installed_in, decode_halfvec),
            ("sparsevec", installed_in, bytes),
            ("tsvector", "pg_catalog", bytes),
        ):
            await conn.set_type_codec(name, schema=schema, encoder=bytes, decoder=decoder, format="binary")


def encode_halfvec(vector: Vectors) -> bytes:
    """Return a vector as the server reads it. The server refuses numbers beyond half precision's 65,504."""
    with np.errstate(over="ignore"):
        return _HALFVEC.pack(len(vector), 0) + vector.astype(">f2").tobytes()


def decode_halfvec(sent: bytes) -> Vectors:
    """Return a vector that the server sent."""
    return np.frombuffer(sent, dtype=">f2", offset=_HALFVEC.size).astype("<f4")


def encode_sparsevec(values: Mapping[int, float]) -> bytes:
    """Return a `sparsevec` with these non-zero values by dimension, counted from 0."""
    dimensions = sorted(values)
    head = _SPARSEVEC.pack(DIMENSIONS, len(dimensions), 0)
    return head + _big_endian("i", dimensions) + _big_endian("f", map(values.__getitem__, dimensions))


def _big_endian(kind: str, numbers: Iterable[float]) -> bytes:
    """Return 4-byte numbers. `array` is faster than `struct`, which would need a format for each count."""
    packed = array(kind, numbers)
    if sys.byteorder == "little":
        packed.byteswap()
    return packed.tobytes()
