"""The table of receipts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from agentctx.storage.file.driver import Connection
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
from agentctx.storage.sqlite.connections import SqlitePart, reads, writes

_SELECT = f"SELECT {', '.join(RECEIPT_COLUMNS)} FROM injections"  # noqa: S608 - the fields of a dataclass
_INSERT = (
    f"INSERT INTO injections ({', '.join(RECEIPT_COLUMNS)}) "  # noqa: S608 - the fields of a dataclass
    f"VALUES ({', '.join('?' * len(RECEIPT_COLUMNS))}) "
    f"ON CONFLICT (id) DO UPDATE {AMENDED}"
)


def _add(conn: Connection, receipts: Sequence[Receipt]) -> None:
    conn.executemany(_INSERT, [receipt_row(receipt) for receipt in receipts])


def _find(conn: Connection, injection_id: str) -> Receipt | None:
    row = conn.execute(f"{_SELECT} WHERE id = ?", (injection_id,)).fetchone()
    return receipt_of(row) if row else None


def _last(conn: Connection, limit: int, visible: Visible = everything) -> list[Receipt]:
    rows = conn.execute("SELECT id, namespaces, principal FROM injections ORDER BY id DESC")
    ids = islice((row[0] for row in rows if visible(receipt_namespaces(row[1]), row[2])), limit)
    found = [receipt_of(conn.execute(f"{_SELECT} WHERE id = ?", (each,)).fetchone()) for each in list(ids)]
    return [receipt for receipt in found if receipt is not None]


def _of_conversation(conn: Connection, conversation: str, principal: int | None) -> list[Receipt]:
    rows = conn.execute(
        f"{_SELECT} WHERE conversation = ? AND principal IS ? ORDER BY id DESC LIMIT ?",
        (conversation, principal, MAX_PER_CONVERSATION),
    )
    return since_restart(receipt for row in rows if (receipt := receipt_of(row)) is not None)


def _sweep(conn: Connection, *, before: int, keep: int) -> int:
    old = conn.execute("DELETE FROM injections WHERE created < ?", (before,)).rowcount
    beyond = conn.execute(
        "DELETE FROM injections WHERE id <= (SELECT id FROM injections ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (keep,),
    ).rowcount
    return int(old + beyond)


def _expired(conn: Connection, entry_id: str, now: int) -> bool:
    row = conn.execute(
        "SELECT EXISTS (SELECT 1 FROM entries WHERE id = ? AND live = 1 AND expires <= ?)", (entry_id, now)
    ).fetchone()
    return bool(row[0])


class SqliteInjections(SqlitePart):
    """`InjectionStorage` on the SQLite file."""

    add = writes(_add)
    find = reads(_find)
    last = reads(_last)
    of_conversation = reads(_of_conversation)
    sweep = writes(_sweep)

    async def expired(self, entry_id: str) -> bool:
        return await self.db.read(_expired, entry_id=entry_id, now=self.db.clock())
