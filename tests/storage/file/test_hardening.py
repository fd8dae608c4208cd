"""What SQLite refuses on the daemon's connections, tested with statements."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentctx.errors import StorageFailed
from agentctx.storage.file.connection_thread import ConnectionThread
from agentctx.storage.file.driver import Connection, OperationalError, hardening, open_connection
from agentctx.storage.file.hardening import LIMITS, Hardening

SCHEMA = (
    "CREATE TABLE t (x)",
    "CREATE VIRTUAL TABLE words USING fts5(text)",
    "CREATE VIRTUAL TABLE vec_1 USING vec0(id INTEGER PRIMARY KEY, embedding FLOAT[2])",
    "INSERT INTO words (text) VALUES ('a')",
    "INSERT INTO vec_1 (id, embedding) VALUES (1, '[1, 0]')",
)
REFUSED = {
    "a row of the words": "DELETE FROM words_data",
    "a table of the words": "DROP TABLE words_data",
    "a row of the vectors": "DELETE FROM vec_1_rowids",
    "a table of the vectors": "DROP TABLE vec_1_chunks",
    "the schema": "UPDATE sqlite_schema SET sql = 'x'",
    "another file": "ATTACH ':memory:' AS other",
    "a copy": "VACUUM INTO 'copy.db'",
    "an extension": "SELECT load_extension('x')",
    "a chain of operators": "SELECT " + "1+" * 300 + "1",
    "many parts": " UNION ALL ".join(["SELECT 1"] * 60),
    "many columns": "CREATE TABLE wide (" + ", ".join(f"c{i}" for i in range(200)) + ")",
    "a long statement": "SELECT 1 --" + "x" * 1_100_000,
    "a huge value": "SELECT zeroblob(300000000)",
    "a long pattern": "SELECT 'a' LIKE '" + "%a" * 1_000 + "'",
    "many arguments": "SELECT max(" + ",".join("1" * 40) + ")",
}


@pytest.fixture(params=["writer", "reader"])
async def thread(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[ConnectionThread]:
    with closing(open_connection(tmp_path / "a.db")) as connection:
        for statement in SCHEMA:
            connection.execute(statement)
    thread = await ConnectionThread.open(tmp_path / "a.db", readonly=request.param == "reader")
    yield thread
    await thread.close()


@pytest.mark.parametrize("name", REFUSED)
async def test_dangerous_or_huge_statements_are_refused(name: str, thread: ConnectionThread) -> None:
    with pytest.raises(StorageFailed):
        await thread.run(lambda connection: connection.execute(REFUSED[name]).fetchall())


@pytest.mark.parametrize("setting", ["trusted_schema", "writable_schema"])
async def test_unsafe_settings_are_off_and_stay_off(setting: str, thread: ConnectionThread) -> None:
    def enable(connection: Connection) -> Any:
        if setting == "writable_schema":
            connection.execute("PRAGMA writable_schema = 1")
        return connection.execute(f"PRAGMA {setting}").fetchone()

    assert await thread.run(enable) == (0,)


async def test_every_limit_is_in_force(thread: ConnectionThread) -> None:
    found = await thread.run(hardening.limits)
    assert found == {name: most for name, (_, most) in LIMITS.items()}
    assert await thread.run(hardening.is_defended)


async def test_virtual_tables_can_write_their_own_shadow_tables(tmp_path: Path) -> None:
    with closing(open_connection(tmp_path / "a.db")) as connection:
        hardening.defend(connection)
        for statement in SCHEMA:
            connection.execute(statement)
        assert connection.execute("SELECT rowid FROM words('a')").fetchone() == (1,)
        connection.execute("DELETE FROM vec_1")
        connection.execute("DROP TABLE words")


def test_a_repair_can_write_shadow_tables_until_it_ends(tmp_path: Path) -> None:
    with closing(open_connection(tmp_path / "a.db")) as connection:
        for statement in SCHEMA:
            connection.execute(statement)
        hardening.defend(connection)
        with hardening.without_defensive(connection):
            connection.execute("DELETE FROM words_data")
        with pytest.raises(OperationalError), hardening.without_defensive(connection):
            connection.execute("SELECT nothing")
        with pytest.raises(OperationalError, match="may not be modified"):
            connection.execute("DELETE FROM words_data")


def test_foreign_connections_are_left_alone() -> None:
    from agentctx.storage.file import driver

    with closing(driver._driver.connect(":memory:")) as connection:
        connection.execute("ATTACH ':memory:' AS other")
        assert len(connection.execute("SELECT " + "1+" * 300 + "1").fetchall()) == 1


def test_a_closed_connection_is_not_touched(tmp_path: Path) -> None:
    connection = open_connection(tmp_path / "a.db")
    connection.close()
    with pytest.raises(ValueError, match="closed"):
        hardening.limits(connection)


def test_the_standard_module_is_hardened_as_well(tmp_path: Path) -> None:
    import sqlite3

    other = Hardening(sqlite3)
    with closing(other.connect(str(tmp_path / "a.db"))) as connection:
        other.defend(connection)
        assert other.is_defended(connection)
        assert other.limits(connection) == {name: most for name, (_, most) in LIMITS.items()}


def test_foreign_connections_still_work_after_the_hardening_is_gone() -> None:
    program = """
import gc, sqlite3
from agentctx.storage.file.hardening import Hardening
Hardening(sqlite3)
gc.collect()
sqlite3.connect(":memory:").close()
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


def test_an_unreachable_sqlite_library_is_used_unhardened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    other = Hardening(sqlite3)
    with closing(other.connect(str(tmp_path / "a.db"))) as connection:
        other.defend(connection)
        with other.without_defensive(connection):
            connection.execute("CREATE TABLE t (x)")
        assert (other.is_defended(connection), other.limits(connection)) == (False, {})


def test_a_connection_can_refuse_to_be_interrupted(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {}) SELECT max(x) FROM n"
    with closing(open_connection(tmp_path / "a.db")) as connection:

        def interrupt() -> int:
            connection.interrupt()
            return 1

        connection.create_function("interrupt", 0, interrupt)
        with hardening.uninterrupted(connection):
            assert connection.execute("SELECT interrupt(), interrupt()").fetchone() == (1, 1)
        with pytest.raises(OperationalError, match="interrupted"):
            connection.execute(f"SELECT interrupt(), ({endless.format(10**6)})").fetchall()
