"""The installation's secret. Every function runs inside the caller's transaction."""

from __future__ import annotations

import secrets
from typing import Final

from agentctx_postgresql.driver import Connection

SECRET_BYTES: Final = 32
_FIND: Final = "SELECT value FROM installation WHERE name = 'secret'"


async def secret(conn: Connection) -> bytes:
    """Return the installation's secret, creating it if missing; of concurrent daemons, the first wins."""
    if (found := await find(conn)) is not None:
        return found
    await conn.execute(
        "INSERT INTO installation (name, value) VALUES ('secret', $1) ON CONFLICT DO NOTHING",
        secrets.token_bytes(SECRET_BYTES),
    )
    return bytes(await conn.fetchval(_FIND))


async def find(conn: Connection) -> bytes | None:
    """Return the installation's secret, or None before it was created."""
    value = await conn.fetchval(_FIND)
    return None if value is None else bytes(value)
