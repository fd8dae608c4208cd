"""Checksums of rows and vectors, so that a damaged one is never taken for what was saved.

A row's covers all of its columns, the content by its hash; a chunk's text is covered by the hash of what is
embedded for it; a vector's covers its place as well. Computed here, never in SQL.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from agentctx.errors import StorageCorrupt
from agentctx.sqlite.driver import Connection
from agentctx.storage import chunk_texts

HEAD: Final = (
    "id",
    "version",
    "live",
    "namespace",
    "collection",
    "key",
    "session",
    "agent",
    "content_hash",
    "attributes",
    "labels",
    "header",
    "scope",
    "origin",
    "trust",
    "principal",
    "created",
    "updated",
    "expires",
)
"""The columns that a row's checksum is made of, in this order."""
BYTES: Final = 8

_SELECT_HEAD: Final = f"SELECT {', '.join(HEAD)} FROM entries WHERE seq = ?"  # noqa: S608 - constants
_ENCODE: Final = json.JSONEncoder(separators=(",", ":"), default=repr).encode


def of_head(values: Sequence[Any]) -> bytes:
    """The checksum of a row by its values of `HEAD`."""
    return blake2b(_ENCODE(list(values)).encode("utf-8", "surrogatepass"), digest_size=BYTES).digest()


def of_vector(namespace: str, collection: str, session: str, vector: bytes) -> bytes:
    """The checksum of a vector in its place."""
    summed = blake2b(vector, digest_size=BYTES)
    summed.update(_place(namespace, collection, session))
    return summed.digest()


@lru_cache(maxsize=1_024, typed=True)
def _place(*names: str) -> bytes:
    return _ENCODE(names).encode("utf-8", "surrogatepass")


def seal(conn: Connection, seq: int) -> None:
    """Give a row the checksum of what it holds now. For code that changed it in this transaction."""
    head = conn.execute(_SELECT_HEAD, (seq,)).fetchone()
    conn.execute("UPDATE entries SET checksum = ? WHERE seq = ?", (of_head(head), seq))


def check_head(values: Sequence[Any], checksum: object) -> None:
    """Raise StorageCorrupt unless the row is as it was written."""
    if checksum != of_head(values):
        raise _corrupt(values[0])


def check_content(entry_id: object, content: object, content_hash: object) -> None:
    """Raise StorageCorrupt unless the content is as it was written."""
    if not isinstance(content, str) or chunk_texts.content_hash(content) != content_hash:
        raise _corrupt(entry_id)


def _corrupt(entry_id: object) -> StorageCorrupt:
    return StorageCorrupt(f"The entry {str(entry_id)[:64]!r} is damaged on the disk.")
