"""Advisory locks, released when their transaction ends. After acquiring one, a statement sees everything
committed until then.

To avoid deadlocks, they are acquired in this order: spaces, Idempotency-Key, trust, key, entries by id.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentctx.storage.postgresql.driver import BEGIN, Connection

_SPACES: Final = 4_207_002
_TRUST: Final = 4_207_003
BEGIN_SHARING_SPACES: Final = f"{BEGIN}; SELECT pg_advisory_xact_lock_shared({_SPACES})"
"""Begins a transaction with the shared lock on the spaces: one round trip less than `lock_spaces_shared`."""
_LOCK: Final = "pg_advisory_xact_lock(hashtextextended($1, 4207))"


async def lock_spaces_shared(conn: Connection) -> None:
    """Acquire a shared lock on the spaces, for adding chunks: no space is enabled or disabled meanwhile."""
    await conn.execute("SELECT pg_advisory_xact_lock_shared($1)", _SPACES)


async def lock_spaces(conn: Connection) -> None:
    """Acquire an exclusive lock on the spaces, for enabling or disabling one: no chunk is added meanwhile."""
    await conn.execute("SELECT pg_advisory_xact_lock($1)", _SPACES)


async def lock_trust_shared(conn: Connection) -> None:
    """Acquire a shared lock on trust, for saving derived entries: nothing is revoked meanwhile."""
    await conn.execute("SELECT pg_advisory_xact_lock_shared($1)", _TRUST)


async def lock_trust(conn: Connection) -> None:
    """Acquire an exclusive lock on trust, for revoking: nothing is derived from other entries meanwhile."""
    await conn.execute("SELECT pg_advisory_xact_lock($1)", _TRUST)


async def lock_key(conn: Connection, namespace: str, collection: str, key: str) -> None:
    """Acquire an exclusive lock on the key: no other transaction saves under it meanwhile."""
    await conn.execute(f"SELECT {_LOCK}", f"key\x1f{namespace}\x1f{collection}\x1f{key}")


async def lock_entries(conn: Connection, entry_ids: Iterable[str]) -> None:
    """Acquire exclusive locks on the entries: no other transaction changes or erases them meanwhile."""
    for entry_id in sorted(set(entry_ids)):
        await conn.execute(f"SELECT {_LOCK}", f"entry\x1f{entry_id}")
