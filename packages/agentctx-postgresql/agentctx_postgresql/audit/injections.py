"""The table of receipts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from agentctx.storage.injections import (
    AMENDED,
    MAX_PER_CONVERSATION,
    RECEIPT_COLUMNS,
    Receipt,
    Visible,
    everything,
    receipt_namespaces,
    receipt_of,
    receipt_row,
    since_restart,
)
from agentctx_postgresql.connections import PostgresqlPart, reads, writes
from agentctx_postgresql.driver import Connection

_SELECT: Final = f"SELECT {', '.join(RECEIPT_COLUMNS)} FROM injections"  # noqa: S608 - the fields of a dataclass
_PLACES: Final = ", ".join(f"${number}" for number in range(1, len(RECEIPT_COLUMNS) + 1))
_INSERT: Final = f"""INSERT INTO injections ({", ".join(RECEIPT_COLUMNS)}) VALUES ({_PLACES})
    ON CONFLICT (id) DO UPDATE {AMENDED}"""  # noqa: S608 - the fields of a dataclass


async def _add(conn: Connection, receipts: Sequence[Receipt]) -> None:
    await conn.executemany(_INSERT, [receipt_row(receipt) for receipt in receipts])


async def _find(conn: Connection, injection_id: str) -> Receipt | None:
    row = await conn.fetchrow(f"{_SELECT} WHERE id = $1", injection_id)
    return None if row is None else receipt_of(row)


async def _last(conn: Connection, limit: int, visible: Visible = everything) -> list[Receipt]:
    rows = await conn.fetch("SELECT id, namespaces, principal FROM injections ORDER BY id DESC")
    ids = islice((row[0] for row in rows if visible(receipt_namespaces(row[1]), row[2])), limit)
    return await _receipts(conn, "WHERE id = ANY($1) ORDER BY id DESC", list(ids))


async def _of_conversation(conn: Connection, conversation: str, principal: int | None) -> list[Receipt]:
    found = await _receipts(
        conn,
        "WHERE conversation = $1 AND principal IS NOT DISTINCT FROM $2 ORDER BY id DESC LIMIT $3",
        conversation,
        principal,
        MAX_PER_CONVERSATION,
    )
    return since_restart(found)


async def _sweep(conn: Connection, *, before: int, keep: int) -> int:
    removed = await conn.fetch(
        """DELETE FROM injections WHERE created < $1
             OR id <= (SELECT id FROM injections WHERE created >= $1 ORDER BY id DESC LIMIT 1 OFFSET $2)
           RETURNING 1""",
        before,
        keep,
    )
    return len(removed)


async def _expired(conn: Connection, entry_id: str, now: int) -> bool:
    return bool(
        await conn.fetchval(
            "SELECT EXISTS (SELECT 1 FROM entries WHERE id = $1 AND live AND expires <= $2)", entry_id, now
        )
    )


async def _receipts(conn: Connection, condition: str, *parameters: Any) -> list[Receipt]:
    found = map(receipt_of, await conn.fetch(f"{_SELECT} {condition}", *parameters))
    return [receipt for receipt in found if receipt is not None]


class PostgresqlInjections(PostgresqlPart):
    """`InjectionStorage` on a PostgreSQL server."""

    add = writes(_add)
    find = reads(_find)
    last = reads(_last)
    of_conversation = reads(_of_conversation)
    sweep = writes(_sweep)

    async def expired(self, entry_id: str) -> bool:
        now = self.db.clock()
        return await self.db.read(lambda conn: _expired(conn, entry_id, now))
