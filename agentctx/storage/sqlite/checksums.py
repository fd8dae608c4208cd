"""Checksums of rows and vectors, so that damaged data is never taken for what was saved.

A row's checksum covers all of its columns, the content by its hash; a chunk's text is covered by the hash of
its embedded text; a vector's checksum also covers its place. They are computed here, never in SQL.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from agentctx.errors import StorageCorrupt
from agentctx.storage import chunk_texts
from agentctx.storage.file.driver import Connection

HEAD: Final = tuple(
    """
    id version live namespace collection key session agent content_hash attributes labels header scope
    origin trust principal created updated expires ttl
    """.split()  # noqa: SIM905 - a literal would take one line per word
)
"""The columns covered by a row's checksum, in this order."""
BYTES: Final = 8

_SELECT_HEAD: Final = f"SELECT {', '.join(HEAD)} FROM entries WHERE seq = ?"  # noqa: S608 - constants
_ENCODE: Final = json.JSONEncoder(separators=(",", ":"), default=repr).encode


def head_checksum(values: Sequence[Any]) -> bytes:
    """Return the checksum of a row with these values of `HEAD`."""
    # Rows from before `ttl` was a column keep the checksum that they have.
    covered = list(values if values[-1] is not None else values[:-1])
    return blake2b(_ENCODE(covered).encode("utf-8", "surrogatepass"), digest_size=BYTES).digest()


def vector_checksum(namespace: str, collection: str, session: str, vector: bytes) -> bytes:
    """Return the checksum of a vector and its place."""
    summed = blake2b(vector, digest_size=BYTES)
    summed.update(_encoded(namespace, collection, session))
    return summed.digest()


@lru_cache(maxsize=1_024, typed=True)
def _encoded(*names: str) -> bytes:
    return _ENCODE(names).encode("utf-8", "surrogatepass")


def seal(conn: Connection, seq: int) -> None:
    """Update the checksum of a row that was changed in this transaction.

    Raises:
        StorageCorrupt: a damaged table does not find the row.
    """
    head = conn.execute(_SELECT_HEAD, (seq,)).fetchone()
    if head is None:
        raise StorageCorrupt(f"Row {seq} of the entries is listed, but cannot be found.")
    conn.execute("UPDATE entries SET checksum = ? WHERE seq = ?", (head_checksum(head), seq))


def check_head(values: Sequence[Any], checksum: object) -> None:
    """Raise StorageCorrupt unless the row matches its checksum."""
    if checksum != head_checksum(values):
        raise _corrupt(values[0])


def check_content(entry_id: object, content: object, content_hash: object) -> None:
    """Raise StorageCorrupt unless the content matches its hash."""
    if not isinstance(content, str) or chunk_texts.content_hash(content) != content_hash:
        raise _corrupt(entry_id)


def _corrupt(entry_id: object) -> StorageCorrupt:
    return StorageCorrupt(f"The entry {str(entry_id)[:64]!r} is damaged on the disk.")
