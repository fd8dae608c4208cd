"""Which chains there are: a mark of their names shows that one was removed as a whole."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from agentctx.storage.audit import HASH_BYTES
from agentctx.storage.postgresql import installation
from agentctx.storage.postgresql.driver import Connection

_MARK: Final = "audit_chains"
_LOCK: Final = 4_207_010


async def begin(conn: Connection, names: Sequence[str]) -> bytes:
    """Add the chains of a daemon, unless they are there; returns the secret of the installation."""
    secret = await installation.secret(conn)
    await conn.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
    added = await conn.fetch(
        """INSERT INTO audit_chains (chain, seq, hash) SELECT unnest($1::text[]), 0, ''
           ON CONFLICT DO NOTHING RETURNING chain""",
        list(names),
    )
    if added:
        await installation.remember(conn, _MARK, await _mark(conn, secret))
    return secret


async def is_whole(conn: Connection, secret: bytes) -> bool:
    """Whether the chains are those that daemons have added."""
    known = await installation.find(conn, _MARK)
    if known is None:
        return not await conn.fetchval("SELECT EXISTS (SELECT 1 FROM audit_chains)")
    return hmac.compare_digest(known, await _mark(conn, secret))


async def _mark(conn: Connection, secret: bytes) -> bytes:
    names = await conn.fetch("SELECT chain FROM audit_chains ORDER BY chain")
    text = json.dumps([row[0] for row in names])
    return blake2b(text.encode(), key=secret, digest_size=HASH_BYTES).digest()
