"""The table of the audit trail: a change is recorded in its own transaction, in a chain that it locks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentctx.storage import audit as trail
from agentctx.storage.audit import AuditRow, Event
from agentctx_postgresql.audit import chain_set
from agentctx_postgresql.audit.chain_set import Chain
from agentctx_postgresql.driver import Connection

_KINDS: Final = ("bigint", "bigint", "text", "bigint", "text", "text", "text", "bytea", "bytea")


def appending(first: int) -> str:
    """Return CTEs that append rows to a chain; `columns` returns their parameters, numbered from `$first`.

    `chain_end` returns a row only if the first one follows the end of the chain.
    """
    chain, seqs, previous, hashes = (f"${first + number}" for number in (0, 1, len(_KINDS) - 1, len(_KINDS)))
    casts = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_KINDS, first + 1))
    return f"""audit_event AS (
      INSERT INTO audit (chain, seq, at, kind, principal, namespace, subject, detail, previous_hash, hash)
      SELECT {chain}::text, * FROM unnest({casts})),
    chain_end AS (
      UPDATE audit_chains SET seq = {seqs}[cardinality({seqs})], hash = {hashes}[cardinality({hashes})]
      WHERE chain = {chain}::text AND hash = {previous}[1] RETURNING chain)"""  # noqa: S608 - numbers of parameters


PARAMETERS: Final = 1 + len(_KINDS)
_APPEND: Final = f"WITH {appending(1)} SELECT"


def next_rows(chain: Chain, events: Sequence[Event], *, now: int) -> list[AuditRow]:
    """Return the rows of the events, each at its own time or now, that follow the end of a chain."""
    rows: list[AuditRow] = []
    head = chain.head
    for event in events:
        row = trail.next_row(chain.secret, head, event, now=now)
        rows.append(row)
        head = trail.Head(row.seq, row.hash)
    return rows


def columns(chain: Chain | None, rows: Sequence[AuditRow]) -> list[Any]:
    """Return the parameters for appending the rows to a chain; nothing is appended without rows."""
    if chain is None or not rows:
        return [None, *([] for _ in _KINDS)]
    return [chain.name, *(list(column) for column in zip(*rows, strict=True))]


async def append(conn: Connection, chain: Chain, events: Sequence[Event], *, now: int) -> None:
    """Append rows to a chain that this transaction has locked."""
    await conn.execute(_APPEND, *columns(chain, next_rows(chain, events, now=now)))


async def add(conn: Connection, events: Sequence[Event], *, now: int) -> None:
    """Record the events in order, each at its own time or now.

    Their details must not contain anything that can be forgotten: no key, text or question.
    """
    await append(conn, await chain_set.take(conn), events, now=now)


async def was_forgotten(conn: Connection, entry_id: str) -> bool:
    """Return whether the entry was deliberately removed; imports must skip it."""
    return bool(
        await conn.fetchval(
            """SELECT EXISTS (SELECT 1 FROM audit WHERE subject = $1 AND kind = 'forget')
                   OR EXISTS (SELECT 1 FROM forgotten WHERE entry = $1)""",
            entry_id,
        )
    )
