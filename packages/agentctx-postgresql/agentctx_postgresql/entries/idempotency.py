"""Remember answers, so that a repeated save takes effect only once. Runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from agentctx.storage.records import IdempotencyKey, SaveOutcome
from agentctx_postgresql.driver import Connection

_COLUMNS: Final = ("bigint", "text", "bytea", "text", "int", "text", "bigint")
PARAMETERS: Final = len(_COLUMNS)
CONSTRAINT: Final = "idempotency_pkey"
"""The constraint that a key in use violates."""


def remembering(first: int) -> str:
    """Return a CTE that records answers; `columns` returns its parameters, numbered from `$first`.

    Of two transactions with the same key, the second waits for the first, and fails if it is committed.
    """
    casts = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_COLUMNS, first))
    return f"""remembered AS (
      INSERT INTO idempotency (principal, key, digest, entry, version, change, created)
      SELECT * FROM unnest({casts}))"""  # noqa: S608 - numbers of parameters


_REMEMBER: Final = """INSERT INTO idempotency (principal, key, digest, entry, version, change, created)
    VALUES ($1, $2, $3, $4, $5, $6, $7)"""


def columns(answers: Iterable[tuple[IdempotencyKey, str, int, str, int]]) -> list[list[Any]]:
    """Return the parameters of `remembering` for answers: key, entry, version, change and time.

    They are in the order of the keys, so that transactions with the same keys do not deadlock.
    """
    rows = sorted((key.principal, key.key, key.digest, *answer) for key, *answer in answers)
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in _COLUMNS]


async def remember(conn: Connection, key: IdempotencyKey, saved: SaveOutcome, now: int) -> None:
    """Record the answer. The driver's error for a key in use means that the transaction is run again."""
    await conn.execute(
        _REMEMBER, key.principal, key.key, key.digest, saved.id, saved.version, saved.change.value, now
    )
