"""SQL that both engines understand, on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.sqlite.sql import follow
from agentctx.storage.steps import Execute, ExecuteMany, LockEntries, Rows, Steps


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[Connection]:
    with closing(open_connection(tmp_path / "notes.db")) as conn:
        conn.execute("CREATE TABLE notes (id TEXT, size INTEGER, is_kept INTEGER)")
        yield conn


def changes() -> Steps[tuple[int, list[str], list[int]]]:
    yield from ExecuteMany("INSERT INTO notes VALUES (?, ?, ?)", [("a", 1, True), ("b", 2, False)])
    yield from Execute("INSERT INTO notes SELECT given.id, ?, FALSE FROM ?ids AS given", (3, ("c", "d")))
    yield from LockEntries(["a"])
    changed = yield from Execute("UPDATE notes SET is_kept = TRUE WHERE size IN ?numbers", ([2, 3],))
    kept = yield from Rows("SELECT id FROM notes WHERE is_kept ORDER BY id LIMIT ? FOR UPDATE", (3,))
    none = yield from Rows("SELECT size FROM notes WHERE id IN ?ids", ([],))
    return changed, [row[0] for row in kept], [row[0] for row in none]


def test_values_and_lists_are_passed(conn: Connection) -> None:
    assert follow(conn, changes()) == (3, ["a", "b", "c"], [])


def test_an_error_ends_the_steps(conn: Connection) -> None:
    def fails() -> Steps[None]:
        yield from Execute("DELETE FROM notes")
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - raised by the steps
        follow(conn, fails())
