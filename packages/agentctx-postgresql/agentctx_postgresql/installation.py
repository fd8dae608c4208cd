"""Values created once per installation. Every function runs inside the caller's transaction."""

from __future__ import annotations

import secrets
from typing import Final

from agentctx_postgresql.driver import Connection

SECRET: Final = "secret"  # noqa: S105 - the name of a row
SECRET_BYTES: Final = 32


async def secret(conn: Connection) -> bytes:
    """Return the installation's secret, creating it if missing; of concurrent daemons, the first wins."""
    if (found := await find(conn, SECRET)) is not None:
        return found
    await conn.execute(
        "INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        SECRET,
        secrets.token_bytes(SECRET_BYTES),
    )
    return bytes(await conn.fetchval("SELECT value FROM installation WHERE name = $1", SECRET))


async def find(conn: Connection, name: str) -> bytes | None:
    """Return the value with this name, or None."""
    value = await conn.fetchval("SELECT value FROM installation WHERE name = $1", name)
    return None if value is None else bytes(value)


async def remember(conn: Connection, name: str, value: bytes) -> None:
    await conn.execute(
        """INSERT INTO installation (name, value) VALUES ($1, $2)
           ON CONFLICT (name) DO UPDATE SET value = excluded.value""",
        name,
        value,
    )
