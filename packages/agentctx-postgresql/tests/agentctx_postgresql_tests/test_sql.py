"""SQL that both engines understand, on PostgreSQL."""

from __future__ import annotations

from agentctx.storage.steps import Execute, ExecuteMany, Rows, Steps
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql.sql import follow


def changes() -> Steps[tuple[int, list[str], list[int]]]:
    yield from ExecuteMany("INSERT INTO notes VALUES (?, ?, ?)", [("a", 1, True), ("b", 2, False)])
    yield from Execute("INSERT INTO notes SELECT given.id, ?, FALSE FROM ?ids AS given", (3, ("c", "d")))
    changed = yield from Execute("UPDATE notes SET is_kept = TRUE WHERE size IN ?numbers", ([2, 3],))
    kept = yield from Rows("SELECT id FROM notes WHERE is_kept ORDER BY id LIMIT ? FOR UPDATE", (3,))
    none = yield from Rows("SELECT size FROM notes WHERE id IN ?ids", ([],))
    return changed, [row[0] for row in kept], [row[0] for row in none]


async def test_values_and_lists_are_passed(storage: PostgresqlStorage) -> None:
    async def work(conn: Connection) -> tuple[int, list[str], list[int]]:
        await conn.execute("CREATE TEMP TABLE notes (id text, size int, is_kept boolean) ON COMMIT DROP")
        return await follow(conn, changes())

    assert await storage.db.write(work) == (3, ["a", "b", "c"], [])
