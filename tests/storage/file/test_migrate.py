from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.errors import SchemaForeign, SchemaTooNew, StorageCorrupt, StorageFailed
from agentctx.storage.file import migrate as migrate_module
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.migrate import (
    Migration,
    SchemaState,
    check_schema,
    load_migrations,
    migrate,
    migrate_database,
    schema_version,
    split_statements,
    usable_schema,
)

FIRST = Migration(1, "first", "CREATE TABLE a (x);\nINSERT INTO a VALUES (1);\n")
SECOND = Migration(2, "second", "CREATE TABLE b (x); -- done")
OTHER = Migration(2, "other", "CREATE TABLE b (y);")
NOTED = Migration(2, "noted", "CREATE TABLE b (x); -- with another checksum")
BROKEN = Migration(
    2, "broken", "CREATE TABLE b (x); INSERT INTO a VALUES (2); INSERT INTO missing VALUES (1);"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    with closing(open_connection(path)) as connection:
        yield connection


def tables(connection: Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(".db")}


class TestMigrate:
    def test_applies_all_in_order_and_records_them(self, connection: Connection) -> None:
        times = iter([1_000, 2_000])
        for known in ([FIRST], [FIRST, SECOND]):
            assert migrate(connection, known, clock=lambda: next(times)) == (len(known),)
        assert tables(connection) == {"a", "b", "schema_migrations"}
        assert connection.execute("SELECT * FROM schema_migrations").fetchall() == [
            (1, "first", FIRST.checksum, 1_000),
            (2, "second", SECOND.checksum, 2_000),
        ]

    def test_a_second_run_writes_nothing(self, connection: Connection) -> None:
        migrate(connection, [FIRST, SECOND])
        before = connection.execute("PRAGMA data_version").fetchone(), connection.total_changes
        assert migrate(connection, [FIRST, SECOND]) == ()
        assert (connection.execute("PRAGMA data_version").fetchone(), connection.total_changes) == before
        assert connection.execute("SELECT x FROM a").fetchall() == [(1,)]

    def test_applies_only_missing_migrations(self, connection: Connection) -> None:
        migrate(connection, [FIRST])
        assert migrate(connection, [FIRST, SECOND]) == (2,)

    def test_a_broken_migration_leaves_no_trace_and_earlier_ones_stay(self, connection: Connection) -> None:
        migrate(connection, [FIRST])
        with pytest.raises(StorageFailed, match=r"0002_broken\.sql"):
            migrate(connection, [FIRST, BROKEN])
        assert not connection.in_transaction
        assert tables(connection) == {"a", "schema_migrations"}
        assert connection.execute("SELECT x FROM a").fetchall() == [(1,)]
        assert connection.execute("SELECT version FROM schema_migrations").fetchall() == [(1,)]
        assert migrate(connection, [FIRST, SECOND]) == (2,)

    def test_a_new_database_gets_all_migrations_or_none(self, connection: Connection) -> None:
        with pytest.raises(StorageFailed, match=r"0002_broken\.sql"):
            migrate(connection, [FIRST, BROKEN])
        assert tables(connection) == set()
        assert migrate(connection, [FIRST, SECOND]) == (1, 2)


class TestMigrateDatabase:
    def test_creates_and_migrates_the_file(self, path: Path) -> None:
        assert migrate_database(path, [FIRST, SECOND]).applied == (1, 2)
        assert check_schema(path, [FIRST, SECOND]).version == 2
        assert migrate_database(path, [FIRST, SECOND]).applied == ()

    def test_a_changed_migration_is_refused_before_anything_is_applied(
        self, path: Path, connection: Connection
    ) -> None:
        third = Migration(3, "third", "CREATE TABLE c (x);")
        migrate(connection, [FIRST, SECOND])
        connection.execute("DROP TABLE a")  # otherwise only the record would be wrong
        with pytest.raises(StorageFailed, match=r"0002_second\.sql"):
            migrate_database(path, [FIRST, Migration(2, "second", SECOND.sql + "!"), third])
        assert tables(connection) == {"b", "schema_migrations"}

    @pytest.mark.parametrize("mode", ["wal", "delete"])
    def test_a_newer_database_is_left_untouched_byte_for_byte(self, path: Path, mode: str) -> None:
        migrate_database(path, [FIRST, SECOND])
        with closing(open_connection(path)) as connection:
            connection.execute(f"PRAGMA journal_mode={mode}")
        before = files(path.parent)
        with pytest.raises(SchemaTooNew) as caught:
            migrate_database(path, [FIRST])
        assert files(path.parent) == before
        assert "2" in caught.value.message
        assert caught.value.hint

    def test_uses_the_bundled_migrations_by_default(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = path.parent / "migrations"
        folder.mkdir()
        (folder / "0001_only.sql").write_text("CREATE TABLE only_one (x);")
        monkeypatch.setattr(migrate_module, "_FOLDERS", (path.parent / "missing", folder))
        assert migrate_database(path).applied == (1,)


class TestSchemaVersion:
    def test_of_a_missing_file_is_0_and_creates_nothing(self, path: Path) -> None:
        assert schema_version(path) == 0
        assert list(path.parent.iterdir()) == []

    def test_of_an_empty_database_is_0(self, path: Path, connection: Connection) -> None:
        assert schema_version(path) == 0

    def test_a_foreign_table_is_not_read(self, path: Path, connection: Connection) -> None:
        connection.execute("CREATE TABLE schema_migrations (id)")
        assert schema_version(path) == 0
        with pytest.raises(SchemaForeign):
            usable_schema(path)


class TestDamagedRecord:
    @pytest.mark.parametrize(
        "damage",
        [
            "UPDATE schema_migrations SET checksum = 'x' WHERE version = 1",
            "UPDATE schema_migrations SET version = 9000000000 WHERE version = 2",
            "UPDATE schema_migrations SET version = -7 WHERE version = 1",
            "DELETE FROM schema_migrations WHERE version = 1",
        ],
    )
    @pytest.mark.parametrize(
        "program", [[FIRST, SECOND], [FIRST, SECOND, Migration(3, "third", "CREATE TABLE c (x);")]]
    )
    def test_is_rewritten_from_the_schema(
        self, path: Path, connection: Connection, damage: str, program: list[Migration]
    ) -> None:
        migrate(connection, [FIRST, SECOND], clock=lambda: 7)
        connection.execute(damage)
        assert check_schema(path, program).applied == (1, 2)
        assert migrate_database(path, program).before.is_misrecorded
        state = check_schema(path, program)
        assert (state.applied, state.changed, state.is_misrecorded) == (state.known, (), False)

    @pytest.mark.parametrize(
        "damage",
        [
            "INSERT INTO schema_migrations VALUES (3, 'newer', 'x', 0)",
            "UPDATE schema_migrations SET checksum = 'x' WHERE version = 1; DROP TABLE a",
        ],
    )
    def test_the_record_of_a_newer_program_or_another_schema_is_left_alone(
        self, path: Path, connection: Connection, damage: str
    ) -> None:
        migrate(connection, [FIRST, SECOND])
        for statement in split_statements(damage):
            connection.execute(statement)
        before = connection.execute("SELECT * FROM schema_migrations").fetchall()
        with pytest.raises(StorageFailed):
            migrate_database(path, [FIRST, SECOND])
        assert connection.execute("SELECT * FROM schema_migrations").fetchall() == before


class TestCheckSchema:
    def test_a_missing_database_has_no_migrations_and_is_not_created(self, path: Path) -> None:
        assert check_schema(path, [FIRST, SECOND]) == SchemaState((), (1, 2), ())
        assert list(path.parent.iterdir()) == []

    @pytest.mark.parametrize(
        ("program", "expected"),
        [
            ([FIRST, SECOND], SchemaState((1, 2), (1, 2), ())),
            ([FIRST], SchemaState((1, 2), (1,), (), foreign=("table b",))),
            ([FIRST, SECOND, Migration(3, "third", "")], SchemaState((1, 2), (1, 2, 3), ())),
            (
                [FIRST, OTHER],
                SchemaState((1, 2), (1, 2), ("0002_other.sql",), foreign=("table b (changed)",)),
            ),
            ([FIRST, NOTED], SchemaState((1, 2), (1, 2), ("0002_noted.sql",), is_misrecorded=True)),
        ],
        ids=["same", "newer", "older", "changed", "misrecorded"],
    )
    def test_compares_without_writing(
        self, path: Path, program: list[Migration], expected: SchemaState
    ) -> None:
        migrate_database(path, [FIRST, SECOND])
        before = files(path.parent)
        assert check_schema(path, program) == expected
        assert files(path.parent) == before

    def test_uses_the_bundled_migrations_by_default(self, path: Path) -> None:
        migrate_database(path)
        state = check_schema(path)
        assert state.applied == state.known != ()
        assert state.changed == ()

    def test_a_foreign_file_is_an_error(self, path: Path) -> None:
        path.write_bytes(b"no database at all, but a text" * 100)
        with pytest.raises(StorageFailed):
            check_schema(path)


class TestLoadMigrations:
    def test_reads_migrations_in_order(self, tmp_path: Path) -> None:
        (tmp_path / "0002_second.sql").write_text("SELECT 2;")
        (tmp_path / "0001_first.sql").write_text("SELECT 1;")
        (tmp_path / "README.md").write_text("not a migration")
        assert load_migrations(tmp_path) == [
            Migration(1, "first", "SELECT 1;"),
            Migration(2, "second", "SELECT 2;"),
        ]

    @pytest.mark.parametrize(
        "names",
        [
            ("0001_a.sql", "0003_b.sql"),
            ("0002_a.sql",),
            ("0001_a.sql", "0001_b.sql"),
            ("1_a.sql",),
            ("0001_A-b.sql",),
        ],
    )
    def test_gaps_duplicates_and_invalid_names_are_errors(
        self, tmp_path: Path, names: tuple[str, ...]
    ) -> None:
        for name in names:
            (tmp_path / name).write_text("SELECT 1;")
        with pytest.raises(StorageFailed):
            load_migrations(tmp_path)

    def test_a_missing_folder_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFailed):
            load_migrations(tmp_path / "missing")


class TestSplitStatements:
    def test_triggers_strings_and_comments_do_not_split(self) -> None:
        body = " UPDATE a SET x = ';';\n DELETE FROM a WHERE x = 2;\n"
        trigger = f"CREATE TRIGGER tr AFTER INSERT ON a BEGIN\n{body}END;"
        comment = "\n-- one; two\nINSERT INTO a VALUES ('a;b');"
        assert list(split_statements(trigger + comment + "\n  ")) == [trigger, comment]

    def test_a_comment_at_the_end_is_harmless(self, connection: Connection) -> None:
        for statement in split_statements("CREATE TABLE a (x);\n-- that; was it\n"):
            connection.execute(statement)
        assert tables(connection) == {"a"}

    @given(st.lists(st.text(alphabet="a;'\n-*/ ", max_size=12), max_size=6))
    def test_loses_no_text(self, pieces: list[str]) -> None:
        sql = ";".join(pieces)
        assert "".join(split_statements(sql)).strip() == sql.strip()


def test_an_impossible_version_counts_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "agentctx.db"
    migrate_database(path)
    with closing(open_connection(path)) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (137438953492, 'x', 'x', 0)")
        connection.execute("DROP INDEX entries_page")
    with pytest.raises(StorageCorrupt):
        migrate_database(path)
