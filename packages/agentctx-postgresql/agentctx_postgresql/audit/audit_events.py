"""Recording in the audit trail, in the transaction of what is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentctx.storage.audit import Event, encoded
from agentctx_postgresql.driver import SERVER_EPOCH, Connection

_KINDS: Final = ("bigint", "text", "bigint", "text", "text", "text")
PARAMETERS: Final = len(_KINDS)


def recording(first: int) -> str:
    """Return an expression that records events once; `columns` returns its parameters, from `$first`."""
    casts = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_KINDS, first))
    return f"(SELECT record_audit({casts}))"


TRANSACTION: Final = f"pg_current_xact_id()::text, {SERVER_EPOCH}"
"""What `Connection.note_id` takes."""
_RECORD: Final = f"SELECT {recording(1)}, {TRANSACTION}"


def columns(events: Sequence[Event], *, now: int) -> list[list[Any]]:
    """Return the parameters for recording the events, each at its own time or now."""
    rows = [
        (
            now if each.at is None else each.at,
            each.kind,
            each.principal,
            each.namespace,
            each.subject,
            encoded(each.detail),
        )
        for each in events
    ]
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in _KINDS]


async def add(conn: Connection, events: Sequence[Event], *, now: int) -> None:
    """Record the events in order, each at its own time or now.

    Their details must not contain anything that can be forgotten: no key, text or question.
    """
    _, number, epoch = await conn.fetchrow(_RECORD, *columns(events, now=now))
    conn.note_id(number, epoch)


async def was_forgotten(conn: Connection, entry_id: str) -> bool:
    """Return whether the entry was deliberately removed; imports must skip it."""
    return bool(
        await conn.fetchval(
            """SELECT EXISTS (SELECT 1 FROM audit WHERE subject = $1 AND kind = 'forget')
                   OR EXISTS (SELECT 1 FROM forgotten WHERE entry = $1)""",
            entry_id,
        )
    )
