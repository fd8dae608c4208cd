"""What transactions take turns for. A lock ends with its transaction; the statements after it see what was
committed before it was given.

They are taken in this order, so that none waits for another in a circle: spaces, Idempotency-Key, trust, key,
entries by id.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentctx.storage.postgresql.driver import BEGIN, Connection

_SPACES: Final = 4_207_002
_TRUST: Final = 4_207_003
BEGIN_SHARING_SPACES: Final = f"{BEGIN}; SELECT pg_advisory_xact_lock_shared({_SPACES})"
"""How a transaction begins for which spaces stay as they are: one statement less than `share_spaces`."""
_LOCK: Final = "pg_advisory_xact_lock(hashtextextended($1, 4207))"


async def share_spaces(conn: Connection) -> None:
    """No space is enabled or disabled until this transaction ends: for who adds chunks."""
    await conn.execute("SELECT pg_advisory_xact_lock_shared($1)", _SPACES)


async def change_spaces(conn: Connection) -> None:
    """No chunk is added until this transaction ends: for who enables or disables spaces."""
    await conn.execute("SELECT pg_advisory_xact_lock($1)", _SPACES)


async def share_trust(conn: Connection) -> None:
    """Nothing is revoked until this transaction ends: for who saves what is made of other entries."""
    await conn.execute("SELECT pg_advisory_xact_lock_shared($1)", _TRUST)


async def change_trust(conn: Connection) -> None:
    """Nothing is made of other entries until this transaction ends: for who revokes them."""
    await conn.execute("SELECT pg_advisory_xact_lock($1)", _TRUST)


async def take_key(conn: Connection, namespace: str, collection: str, key: str) -> None:
    """Nobody else saves under this key until this transaction ends."""
    await conn.execute(f"SELECT {_LOCK}", f"key\x1f{namespace}\x1f{collection}\x1f{key}")


async def take_entries(conn: Connection, entry_ids: Iterable[str]) -> None:
    """Nobody else changes or erases these entries until this transaction ends."""
    for entry_id in sorted(set(entry_ids)):
        await conn.execute(f"SELECT {_LOCK}", f"entry\x1f{entry_id}")
