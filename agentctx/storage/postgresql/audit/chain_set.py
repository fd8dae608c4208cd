"""The set of audit chains, and the choice of the chain that a transaction writes to.

With a single chain, every save would wait for the previous one's disk write. So a transaction locks a free
chain until it ends; there are about as many chains as the most concurrent writers so far.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from agentctx.storage.audit import HASH_BYTES, Head
from agentctx.storage.postgresql import installation
from agentctx.storage.postgresql.driver import SERVER_EPOCH, Connection

ADDED_AT_ONCE: Final = 16
_MARK: Final = "audit_chains"
_LOCK: Final = 4_207_010
# Continues after rows added by hand: they must be detected, but must not prevent saves.
FREE: Final = f"""SELECT chain,
      greatest(seq, (SELECT max(seq) FROM audit WHERE audit.chain = free.chain)), hash,
      (SELECT value FROM installation WHERE name = 'secret'), pg_current_xact_id()::text, {SERVER_EPOCH}
    FROM audit_chains free ORDER BY chain LIMIT 1 FOR UPDATE SKIP LOCKED"""  # noqa: S608 - constants
"""Locks a chain that is not locked by another transaction; no row if there is none."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain locked by a transaction, its head, and the secret of the installation."""

    name: str
    head: Head
    secret: bytes


async def take(conn: Connection) -> Chain:
    """Lock a chain that is not locked by another transaction."""
    row = await conn.fetchrow(FREE)
    if row is None:
        await conn.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        row = await conn.fetchrow(FREE)  # another transaction may just have added some
    if row is None:
        await _add(conn)
        row = await conn.fetchrow(FREE)
    return taken(conn, row)


def taken(conn: Connection, row: Sequence[Any]) -> Chain:
    """Return the chain in a row of `FREE`."""
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
