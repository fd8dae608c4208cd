"""What a hostile schema contains, and what agentctx's own programs and repairs make in theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.errors import SchemaForeign, SchemaTooNew
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.migrate import (
    find_foreign,
    load_migrations,
    migrate_database,
    split_statements,
    usable_schema,
)
from agentctx.storage.file.schema import schema_words
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex

FOREIGN = {
    "CREATE TABLE hoard (t)": ["table hoard"],
    "CREATE TRIGGER h AFTER INSERT ON entries BEGIN DELETE FROM jobs; END": ["trigger h"],
    "CREATE TRIGGER chunk_fts_data BEFORE DELETE ON entries BEGIN SELECT raise(ignore); END": [
        "trigger chunk_fts_data (changed)"
    ],
    "CREATE TRIGGER vec_1_info BEFORE DELETE ON entries BEGIN SELECT raise(ignore); END": [
        "trigger vec_1_info"
    ],
    "CREATE VIEW shown AS SELECT content FROM entries": ["view shown"],
    "CREATE VIEW vec_3 AS SELECT 1 AS id": ["view vec_3"],
    "CREATE TABLE vec_3 (id)": ["table vec_3"],
    "CREATE TABLE vec_3_rowids (rowid INTEGER PRIMARY KEY, x AS (abs(rowid)))": ["table vec_3_rowids"],
    "CREATE TABLE vec_3_info (key CHECK (length(key) < 1))": ["table vec_3_info"],
    "CREATE TABLE vec_3_info_more (key)": ["table vec_3_info_more"],
    "CREATE VIRTUAL TABLE more USING fts5 (x)": ["table more"],
    "CREATE VIRTUAL TABLE vec_3 USING fts5 (x)": ["table vec_3"],
    "CREATE VIRTUAL TABLE chunk_fts_next USING fts5 (x)": ["table chunk_fts_next"],
    "CREATE INDEX slow ON entries (length(content))": ["index slow"],
    "CREATE INDEX vec_4 ON entries (content)": ["index vec_4"],
    "ALTER TABLE entries ADD COLUMN more TEXT": ["table entries (changed)"],
    "ALTER TABLE entries ADD COLUMN more INTEGER AS (length(content))": ["table entries (changed)"],
    "DROP VIEW chunk_text; CREATE VIEW chunk_text AS SELECT 1 AS id": ["view chunk_text (changed)"],
    "DROP INDEX entries_page; CREATE INDEX entries_page ON entries (upper(content))": [
        "index entries_page (changed)"
    ],
    "CREATE TABLE '\x1b[2Jx' (t)": ["table \\x1b[2Jx"],
    "PRAGMA writable_schema=1; UPDATE sqlite_schema SET sql = replace(sql, ' STRICT', '') "
    "WHERE name = 'flags'": ["table flags (changed)"],
    "PRAGMA writable_schema=1; UPDATE sqlite_schema SET sql = replace(sql, 'TEXT PRIMARY KEY', "
    "'TEXT PRIMARY KEY \"--\" CHECK (0)\n') WHERE name = 'installation'": ["table installation (changed)"],
    "PRAGMA writable_schema=1; INSERT INTO sqlite_schema VALUES ('index', 'sqlite_autoindex_jobs_2', "
    "'jobs', 0, 'CREATE TRIGGER t AFTER INSERT ON jobs BEGIN SELECT 1; END')": [
        "index sqlite_autoindex_jobs_2"
    ],
    "PRAGMA writable_schema=1; INSERT INTO sqlite_schema VALUES ('table', 'sqlite_stat1', "
    "'sqlite_stat1', 0, 'CREATE TRIGGER t AFTER INSERT ON jobs BEGIN SELECT 1; END')": ["table sqlite_stat1"],
    "PRAGMA writable_schema=1; INSERT INTO sqlite_schema VALUES ('evil kind', 'x', 'x', 0, "
    "'CREATE TRIGGER x AFTER INSERT ON jobs BEGIN SELECT 1; END')": ["object x"],
}
"""Statements of a hostile user, and what is foreign then."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "agentctx.db"
    migrate_database(path)
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    with closing(open_connection(path)) as connection:
        yield connection


def foreign(connection: Connection) -> list[str]:
    return list(map(str, find_foreign(connection)))


def test_what_a_hostile_user_added_or_changed_is_named(connection: Connection) -> None:
    wrong = {}
    for script, expected in FOREIGN.items():
        connection.execute("SAVEPOINT before")
        for statement in split_statements(script):
            connection.execute(statement)
        found = foreign(connection)
        if not set(expected) <= set(found):
            wrong[script] = found
        connection.execute("ROLLBACK TO before")
        connection.execute("RELEASE before")
        connection.execute("PRAGMA writable_schema=RESET")
    assert wrong == {}


def test_what_agentctx_and_sqlite_make_without_a_migration_is_known(connection: Connection) -> None:
    SpaceIndex(1).create(connection, 384)
    word_index.create(connection, word_index.NEXT)
    assert foreign(connection) == []
    word_index.replace_by_next(connection)
    connection.execute("ANALYZE")
    assert foreign(connection) == []


def test_triggers_do_not_fire(connection: Connection) -> None:
    connection.execute("CREATE TRIGGER t BEFORE INSERT ON flags BEGIN SELECT raise(abort, 'no'); END")
    connection.execute("INSERT INTO flags VALUES ('e', 'f')")
    assert connection.execute("SELECT COUNT(*) FROM flags").fetchone() == (1,)


def test_nothing_but_the_schema_is_read_before_a_refusal(path: Path, connection: Connection) -> None:
    """A ledger that is an endless view would never answer."""
    connection.execute("DROP TABLE schema_migrations")
    connection.execute(
        """CREATE VIEW schema_migrations AS WITH RECURSIVE n(version) AS
           (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT version, '' AS checksum FROM n"""
    )
    with pytest.raises(SchemaForeign, match=r"view schema_migrations \(changed\)"):
        usable_schema(path)


def test_a_newer_schema_is_new_and_not_foreign(path: Path, connection: Connection) -> None:
    connection.execute("CREATE TABLE later (x)")
    connection.execute(
        "INSERT INTO schema_migrations VALUES (?, 'later', '', 0)", (len(load_migrations()) + 1,)
    )
    with pytest.raises(SchemaTooNew):
        usable_schema(path)


def test_words_of_a_definition_keep_what_quotes_hide() -> None:
    assert schema_words(b'CREATE TABLE "a" (x /* y */, "--" Z) -- end') == (
        *(b"create", b"table", b"a", b"(", b"x", b",", b'"--"', b"z", b")"),
    )
