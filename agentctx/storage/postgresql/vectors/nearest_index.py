"""An HNSW index for each namespace whose vectors are too many to be measured for each question.

One for all namespaces misses most of what a small one has: it finds the nearest of all, and filters them.
"""

from __future__ import annotations

import hashlib
from typing import Final

from agentctx.storage.postgresql.driver import Connection

LARGE: Final = 20_000
"""Vectors of a namespace from which on it gets an index: measuring as many takes 26 ms."""
MOST_DIMENSIONS: Final = 4_000
"""That an HNSW index of `halfvec` takes."""

_IS_THERE: Final = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"
_LARGE: Final = (
    "SELECT namespace FROM vec_{space:d} GROUP BY namespace HAVING count(*) >= {large:d} ORDER BY namespace"
)
_NAMED: Final = """SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indrelid = to_regclass($1) AND relname LIKE $1 || '\\_near\\_%' {condition} ORDER BY relname"""
_CREATE: Final = """CREATE INDEX CONCURRENTLY {name} ON vec_{space:d}
    USING hnsw (embedding halfvec_cosine_ops) WHERE namespace = {namespace}"""


def name_of(space: int, namespace: str) -> str:
    """The name of the index of a namespace."""
    return f"vec_{space:d}_near_{hashlib.sha256(namespace.encode()).hexdigest()[:16]}"


def quoted(namespace: str) -> str:
    """A literal: a partial index is only found for one, not for a parameter."""
    return "'" + namespace.replace("'", "''") + "'"


async def is_there(conn: Connection, space: int, namespace: str) -> bool:
    """Whether the namespace has an index that is whole."""
    return bool(await conn.fetchval(_IS_THERE, name_of(space, namespace)))


async def keep_one(conn: Connection, space: int) -> bool:
    """Drop an index that was left unfinished, or make one that is missing; False when nothing is to be done.

    The connection must not be in a transaction. Saves continue meanwhile.
    """
    if left := await conn.fetchval(_NAMED.format(condition="AND NOT indisvalid"), f"vec_{space:d}"):
        await conn.execute(f"DROP INDEX CONCURRENTLY {left}")
        return True
    known = {row[0] for row in await conn.fetch(_NAMED.format(condition=""), f"vec_{space:d}")}
    for (namespace,) in await conn.fetch(_LARGE.format(space=space, large=LARGE)):
        name = name_of(space, namespace)
        if name not in known:
            await conn.execute(_CREATE.format(name=name, space=space, namespace=quoted(namespace)))
            return True
    return False
