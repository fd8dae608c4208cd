import sqlite3
from pathlib import Path

import pytest

from agentctx_importers import foreign_sqlite
from agentctx_importers.foreign_sqlite import opened_database
from agentctx_importers.records import Unreadable

ROWS = "SELECT id, text FROM notes ORDER BY id"


def database(file: Path, *statements: str) -> Path:
    connection = sqlite3.connect(file)
    for statement in ("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)", *statements):
        connection.execute(statement)
    connection.commit()
    connection.close()
    return file


def test_rows_are_read_without_touching_the_folder(tmp_path: Path) -> None:
    file = database(tmp_path / "a.db", "PRAGMA journal_mode = WAL", "INSERT INTO notes VALUES (1, 'one')")
    before = file.stat().st_mtime_ns
    with opened_database(file) as found:
        assert list(found.rows(ROWS, "notes")) == [(1, "one")]
        assert [each.name for each in tmp_path.glob("*.db*")] == ["a.db"]
    assert file.stat().st_mtime_ns == before


def test_what_a_running_program_has_just_saved_is_read(tmp_path: Path) -> None:
    file = database(tmp_path / "a.db", "PRAGMA journal_mode = WAL")
    writer = sqlite3.connect(file)
    writer.execute("INSERT INTO notes VALUES (1, 'in the log')")
    writer.commit()
    try:
        with opened_database(file) as found:
            assert list(found.rows(ROWS, "notes")) == [(1, "in the log")]
    finally:
        writer.close()


def test_a_view_or_virtual_table_in_the_place_of_a_table_is_refused(tmp_path: Path) -> None:
    view = "CREATE VIEW notes AS SELECT 1 AS id, load_extension('evil.so') AS text"
    file = database(tmp_path / "a.db", "DROP TABLE notes", view)
    virtual = database(
        tmp_path / "b.db", "DROP TABLE notes", "CREATE VIRTUAL TABLE notes USING fts5(id, text)"
    )
    for each in (file, virtual):
        with opened_database(each) as found, pytest.raises(Unreadable, match="has no table notes"):
            list(found.rows(ROWS, "notes"))


@pytest.mark.parametrize(
    "statement", ["DELETE FROM notes", "ATTACH 'x.db' AS x", "PRAGMA writable_schema = 1"]
)
def test_nothing_can_be_written_or_attached(statement: str, tmp_path: Path) -> None:
    file = database(tmp_path / "a.db", "INSERT INTO notes VALUES (1, 'one')")
    with opened_database(file) as found, pytest.raises(Unreadable):
        list(found.rows(statement, "notes"))


def test_a_value_over_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_sqlite, "MAX_VALUE_BYTES", 1_000)
    file = database(tmp_path / "a.db", "INSERT INTO notes VALUES (1, zeroblob(10000))")
    with opened_database(file) as found, pytest.raises(Unreadable, match="too big"):
        list(found.rows(ROWS, "notes"))


def test_a_damaged_file_and_another_schema_are_refused(tmp_path: Path) -> None:
    file = database(tmp_path / "a.db", *(["INSERT INTO notes (text) VALUES (hex(randomblob(500)))"] * 50))
    with opened_database(file) as found, pytest.raises(Unreadable, match="no such column"):
        list(found.rows("SELECT absent FROM notes", "notes"))
    data = bytearray(file.read_bytes())
    data[4096:] = b"\x55" * (len(data) - 4096)
    file.write_bytes(data)
    with opened_database(file) as found, pytest.raises(Unreadable, match="malformed"):
        list(found.rows(ROWS, "notes"))
    file.write_bytes(data[:16] + b"\xff" * 200)
    with pytest.raises(Unreadable), opened_database(file):
        pass
