"""The PostgreSQL engine: the conformance suite and what is its own."""

from __future__ import annotations

from agentctx.storage.postgresql.engine import PostgresqlStorage


async def test_the_secret_is_made_once(storage: PostgresqlStorage) -> None:
    secret = await storage.secret()
    assert (len(secret), await storage.secret()) == (32, secret)
