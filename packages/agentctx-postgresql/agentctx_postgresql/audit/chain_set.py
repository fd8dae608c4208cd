"""The set of audit chains, and the choice of the chain that a transaction writes to.

With a single chain, every save would wait for the previous one's disk write. So a transaction locks a free
chain until it ends; there are about as many chains as the most concurrent writers so far. Groups of saves
continue chains that their daemon has to itself, whose ends it keeps in memory.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from agentctx.storage.audit import HASH_BYTES, AuditRow, Head
from agentctx_postgresql import installation
from agentctx_postgresql.driver import SERVER_EPOCH, Connection, transaction

ADDED_AT_ONCE: Final = 16
_MARK: Final = "audit_chains"
_LOCK: Final = 4_207_010
# Continues after rows added by hand: they must be detected, but must not prevent saves.
_CHAIN: Final = """chain, greatest(seq, (SELECT max(seq) FROM audit WHERE audit.chain = free.chain)), hash,
      (SELECT value FROM installation WHERE name = 'secret')"""
_FREE: Final = f"""SELECT {_CHAIN}, pg_current_xact_id()::text, {SERVER_EPOCH}
    FROM audit_chains free WHERE daemon IS NULL ORDER BY chain LIMIT 1 FOR UPDATE SKIP LOCKED"""  # noqa: S608 - constants
"""Locks a chain that is not locked by another transaction; no row if there is none."""
_RESERVE: Final = f"""UPDATE audit_chains free SET daemon = $1
    WHERE chain = (
      SELECT chain FROM audit_chains WHERE (daemon = $1 OR daemon IS NULL) AND chain <> ALL ($2::text[])
      ORDER BY daemon, chain LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING {_CHAIN}"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain that nobody else continues meanwhile, its head, and the secret of the installation."""

    name: str
    head: Head
    secret: bytes

    def extended(self, rows: Sequence[AuditRow]) -> Chain:
        """Return the chain after these rows were added."""
        return replace(self, head=Head(rows[-1].seq, rows[-1].hash)) if rows else self


class OwnChains:
    """The chains that only this daemon continues, with their ends in memory.

    Should another process continue one all the same, the statement of `audit_events.appending` fails.
    """

    def __init__(self, daemon: str) -> None:
        self._daemon = daemon
        self._known: list[Chain] = []
        self._in_use: set[str] = set()
        self._reserving = asyncio.Lock()

    @asynccontextmanager
    async def use(self, conn: Connection) -> AsyncIterator[Chain]:
        """Yield a chain that nobody else gets meanwhile. Unless the block calls `keep`, it is read again."""
        async with self._reserving:
            chain = self._known.pop() if self._known else await self._reserve(conn)
            self._in_use.add(chain.name)
        try:
            yield chain
        finally:
            self._in_use.discard(chain.name)

    def keep(self, chain: Chain) -> None:
        """Remember the new end of a chain in use."""
        self._known.append(chain)

    async def _reserve(self, conn: Connection) -> Chain:
        row = await conn.fetchrow(_RESERVE, self._daemon, list(self._in_use))
        if row is None:
            async with nullcontext() if conn.is_in_transaction() else transaction(conn):
                await conn.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                await _add(conn)
            row = await conn.fetchrow(_RESERVE, self._daemon, list(self._in_use))
        name, seq, digest, secret = row
        return Chain(name, Head(seq, digest), secret)


async def take(conn: Connection) -> Chain:
    """Lock a chain that is not locked by another transaction."""
    row = await conn.fetchrow(_FREE)
    if row is None:
        await conn.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        row = await conn.fetchrow(_FREE)  # another transaction may just have added some
    if row is None:
        await _add(conn)
        row = await conn.fetchrow(_FREE)
    name, seq, digest, secret, number, epoch = row
    conn.note_id(number, epoch)
    return Chain(name, Head(seq, digest), secret)


async def _add(conn: Connection) -> None:
    """Add chains with new names. A mark that does not match is left for `is_complete` to detect."""
    secret = await installation.secret(conn)
    was_complete = await is_complete(conn, secret)
    await conn.execute(
        "INSERT INTO audit_chains (chain, seq, hash) SELECT unnest($1::text[]), 0, ''",
        [secrets.token_hex(8) for _ in range(ADDED_AT_ONCE)],
    )
    if was_complete:
        await installation.remember(conn, _MARK, await _mark(conn, secret))


async def is_complete(conn: Connection, secret: bytes) -> bool:
    """Return whether the set has exactly the chains that were added: no whole chain was removed."""
    known = await installation.find(conn, _MARK)
    if known is None:
        return not await conn.fetchval("SELECT EXISTS (SELECT 1 FROM audit_chains)")
    return hmac.compare_digest(known, await _mark(conn, secret))


async def _mark(conn: Connection, secret: bytes) -> bytes:
    names = await conn.fetch("SELECT chain FROM audit_chains ORDER BY chain")
    text = json.dumps([row[0] for row in names])
    return blake2b(text.encode(), key=secret, digest_size=HASH_BYTES).digest()
