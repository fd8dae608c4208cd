"""Remember answers, so that a repeated save takes effect only once. Runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.records import IdempotencyKey, Saved

CLAIMING: Final = """
claimed AS (
  INSERT INTO idempotency (principal, key, digest, entry, version, change, created)
  SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::text[], $5::int[], $6::text[], $7::bigint[])
  ON CONFLICT DO NOTHING RETURNING entry)"""
"""A CTE that records answers in advance and returns the entries whose key was unused; `columns` returns the
parameters. Of two transactions with the same key, the second waits here until the first is committed."""
_REMEMBER: Final = """INSERT INTO idempotency (principal, key, digest, entry, version, change, created)
    VALUES ($1, $2, $3, $4, $5, $6, $7)"""


def columns(answers: Iterable[tuple[IdempotencyKey, str, int, str, int]]) -> list[list[Any]]:
    """Return the parameters of `CLAIMING` for answers: key, entry, version, change and time.

    They are in the order of the keys, so that transactions with the same keys do not deadlock.
    """
    rows = sorted((key.principal, key.key, key.digest, *answer) for key, *answer in answers)
    return [list(column) for column in zip(*rows, strict=True)]


async def remember(conn: Connection, key: IdempotencyKey, saved: Saved, now: int) -> None:
    """Record the answer. The driver's error for a key in use means that the transaction is run again."""
    await conn.execute(
        _REMEMBER, key.principal, key.key, key.digest, saved.id, saved.version, saved.change.value, now
    )
