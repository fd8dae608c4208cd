"""Quarantine within other changes. Every function runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.storage import quarantine
from agentctx_postgresql import sql
from agentctx_postgresql.driver import Connection


async def hold(
    conn: Connection, entry_id: str, *, screened: bool = False, revocation: int | None = None, now: int
) -> None:
    await sql.follow(conn, quarantine.hold([entry_id], screened=screened, revocation=revocation, now=now))


async def inherit(
    conn: Connection, entry_id: str, namespace: str, sources: Sequence[str], *, now: int
) -> None:
    await sql.follow(conn, quarantine.inherit(entry_id, namespace, sources, now=now))


async def is_held(conn: Connection, entry_id: str) -> bool:
    return await sql.follow(conn, quarantine.is_held(entry_id))
