from __future__ import annotations

import os
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentctx.errors import DriverUnsuitable, StorageFailed, StorageFull
from agentctx.storage.file import driver
from agentctx.storage.file.driver import Connection, DriverCandidate, choose, mapped, open_connection
from tests.durability.powercut_recording import strace_is_missing

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


def pragma(connection: Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


class TestChoose:
    @pytest.mark.parametrize(
        "version", [(3, 51, 3), (3, 53, 4), (4, 0, 0), (3, 50, 7), (3, 50, 9), (3, 44, 6), (3, 44, 7)]
    )
    def test_accepts_fixed_versions(self, version: tuple[int, int, int]) -> None:
        candidate = DriverCandidate("pysqlite3", version, loads_extensions=True)
        assert choose([candidate]) is candidate

    @pytest.mark.parametrize(
        "version",
        [(3, 7, 0), (3, 40, 1), (3, 44, 5), (3, 45, 9), (3, 49, 7), (3, 50, 6), (3, 51, 0), (3, 51, 2)],
    )
    def test_refuses_versions_with_the_corruption_bug(self, version: tuple[int, int, int]) -> None:
        with pytest.raises(DriverUnsuitable):
            choose([DriverCandidate("sqlite3", version, loads_extensions=True)])

    def test_an_old_standard_module_is_refused_with_a_hint_what_to_install(self) -> None:
        with pytest.raises(DriverUnsuitable) as caught:
            choose([DriverCandidate("sqlite3", (3, 40, 1), loads_extensions=False)])
        assert "3.40.1" in caught.value.message
        assert "cannot load extensions" in caught.value.message
        assert "pysqlite3" in caught.value.hint

    def test_the_first_suitable_candidate_is_chosen(self) -> None:
        old = DriverCandidate("pysqlite3", (3, 51, 1), loads_extensions=True)
        locked = DriverCandidate("other", (3, 53, 0), loads_extensions=False)
        good = DriverCandidate("sqlite3", (3, 51, 3), loads_extensions=True)
        assert choose([old, locked, good]) is good

    def test_no_candidates_are_refused(self) -> None:
        with pytest.raises(DriverUnsuitable):
            choose([])


def test_the_driver_in_use_is_suitable() -> None:
    version = tuple(map(int, driver.sqlite_version().split(".")))
    assert driver.is_fixed((version[0], version[1], version[2]))
    assert driver.driver_name() in {"pysqlite3", "sqlite3"}


def test_without_a_suitable_driver_no_file_is_created(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = SimpleNamespace(sqlite_version_info=(3, 40, 1), Connection=object)
    monkeypatch.setattr(driver, "_modules", {"sqlite3": old})
    with pytest.raises(DriverUnsuitable):
        open_connection(tmp_path / "a.db")
    assert list(tmp_path.iterdir()) == []


class TestWriterConnection:
    def test_the_file_is_private_whatever_the_umask(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            with closing(open_connection(tmp_path / "a.db")) as connection:
                connection.execute("CREATE TABLE t (x)")
                modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
        finally:
            os.umask(before)
        assert modes == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("journal_mode", "wal"),
            ("synchronous", 2),
            ("foreign_keys", 1),
            ("busy_timeout", 5_000),
            ("temp_store", 2),
            ("secure_delete", 1),
            ("trusted_schema", 0),
            ("cell_size_check", 1),
            ("cache_size", -8_000),
            ("journal_size_limit", 64 * 1024 * 1024),
            ("mmap_size", 0),
        ],
    )
    def test_every_pragma_is_set(self, tmp_path: Path, name: str, value: object) -> None:
        with closing(open_connection(tmp_path / "a.db")) as connection:
            assert pragma(connection, name) == value

    @pytest.mark.parametrize(
        ("name", "value"), [("mmap_size", 0), ("cache_size", -4_000), ("cell_size_check", 0)]
    )
    def test_every_pragma_of_a_reader_is_set(self, tmp_path: Path, name: str, value: object) -> None:
        with (
            closing(open_connection(tmp_path / "a.db")),
            closing(open_connection(tmp_path / "a.db", readonly=True)) as reader,
        ):
            assert pragma(reader, name) == value

    @pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
    def test_a_reader_maps_the_file_only_while_it_is_asked_to(self, tmp_path: Path) -> None:
        path = tmp_path / "a.db"

        def is_mapped() -> bool:
            maps = Path("/proc/self/maps").read_text().splitlines()
            return str(path) in {line.split()[-1] for line in maps}

        def fail(reader: Connection) -> None:
            with mapped(reader):
                assert reader.execute("SELECT x FROM t").fetchall() == [("a" * 100_000,)]
                assert is_mapped()
                raise LookupError

        with closing(open_connection(path)) as writer:
            writer.execute("CREATE TABLE t (x)")
            writer.execute("INSERT INTO t VALUES (?)", ("a" * 100_000,))
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            with closing(open_connection(path, readonly=True)) as reader:
                reader.execute("BEGIN")
                for _ in range(2):
                    with pytest.raises(LookupError):
                        fail(reader)
                    assert not is_mapped()

    @pytest.mark.parametrize("name", ["a?mode=memory.db", "100%25 #1.db", "ünïcode 文.db", "file:x.db"])
    def test_any_file_name_is_taken_literally(self, tmp_path: Path, name: str) -> None:
        with closing(open_connection(tmp_path / name)) as connection:
            connection.execute("CREATE TABLE t (x)")
        assert [file.name for file in tmp_path.iterdir()] == [name]
        with closing(open_connection(tmp_path / name, readonly=True)) as connection:
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)

    def test_sqlite_vec_is_loaded_and_extension_loading_is_off_again(self, tmp_path: Path) -> None:
        with closing(open_connection(tmp_path / "a.db")) as connection:
            assert connection.execute("SELECT vec_version()").fetchone()[0].startswith("v0.1")
            with pytest.raises(driver.OperationalError, match="not authorized"):
                connection.execute("SELECT load_extension('x')")

    def test_an_existing_database_is_never_opened_as_a_plain_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "a.db"
        open_connection(path).close()
        real_open, descriptors = os.open, list[int]()

        def recording_open(file: str, flags: int, mode: int = 0o777) -> int:
            descriptors.append(real_open(file, flags, mode))
            return descriptors[-1]

        monkeypatch.setattr(os, "open", recording_open)
        open_connection(path).close()
        assert descriptors == []

    def test_full_text_over_a_view_and_vectors_work_with_an_untrusted_schema(self, tmp_path: Path) -> None:
        with closing(open_connection(tmp_path / "a.db")) as connection:
            connection.execute("CREATE TABLE entries (id INTEGER PRIMARY KEY, content TEXT)")
            connection.execute(
                "CREATE TABLE chunks (id INTEGER PRIMARY KEY, entry INT, first INT, length INT)"
            )
            connection.execute(
                "CREATE VIEW chunk_text (id, text) AS SELECT chunks.id, substr(content, first, length)"
                " FROM chunks JOIN entries ON entries.id = entry"
            )
            connection.execute(
                "CREATE VIRTUAL TABLE fts USING fts5(text, content=chunk_text, content_rowid=id)"
            )
            connection.execute("INSERT INTO fts (fts, rank) VALUES ('secure-delete', 1)")
            connection.execute("INSERT INTO entries VALUES (1, 'hello brave world')")
            connection.execute("INSERT INTO chunks VALUES (7, 1, 7, 5)")
            connection.execute("INSERT INTO fts (rowid, text) VALUES (7, 'brave')")
            assert connection.execute("SELECT rowid, text FROM fts('brave')").fetchall() == [(7, "brave")]
            connection.execute("CREATE VIRTUAL TABLE v USING vec0(e FLOAT[2])")
            connection.execute("INSERT INTO v (rowid, e) VALUES (1, ?)", (struct.pack("2f", 1, 0),))
            assert connection.execute("SELECT count(*) FROM v").fetchone() == (1,)

    def test_a_missing_folder_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFailed) as caught:
            open_connection(tmp_path / "no" / "a.db")
        assert "folder" in caught.value.hint

    def test_a_pipe_is_refused_instead_of_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a.db")
        with pytest.raises(StorageFailed, match="not a regular file"):
            open_connection(tmp_path / "a.db")

    @pytest.mark.parametrize("readonly", [False, True])
    def test_a_file_that_is_not_a_database_is_refused_and_left_alone(
        self, tmp_path: Path, *, readonly: bool
    ) -> None:
        path = tmp_path / "a.db"
        path.write_text("private text " * 1_000)
        with pytest.raises(StorageFailed) as caught:
            open_connection(path, readonly=readonly)
        assert "private text" not in caught.value.message
        assert path.read_text() == "private text " * 1_000


class TestReaderConnection:
    def test_can_read_but_not_write(self, tmp_path: Path) -> None:
        with closing(open_connection(tmp_path / "a.db")) as writer:
            writer.execute("CREATE TABLE t (x)")
            with closing(open_connection(tmp_path / "a.db", readonly=True)) as reader:
                assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
                with pytest.raises(driver.OperationalError):
                    reader.execute("INSERT INTO t VALUES (1)")

    def test_may_use_temporary_tables(self, tmp_path: Path) -> None:
        open_connection(tmp_path / "a.db").close()
        with closing(open_connection(tmp_path / "a.db", readonly=True)) as reader:
            reader.execute("CREATE TEMP TABLE ids (id)")
            reader.execute("INSERT INTO ids VALUES (1)")
            assert reader.execute("SELECT id FROM ids").fetchall() == [(1,)]

    def test_does_not_create_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFailed):
            open_connection(tmp_path / "a.db", readonly=True)
        assert list(tmp_path.iterdir()) == []


class TestTranslated:
    def test_a_full_disk_becomes_storage_full(self, tmp_path: Path) -> None:
        with closing(open_connection(tmp_path / "a.db")) as connection:
            connection.execute("CREATE TABLE t (x)")
            connection.execute("PRAGMA max_page_count = 5")
            with pytest.raises(driver.Error) as caught:
                connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
            assert isinstance(driver.translated(caught.value), StorageFull)

    def test_neither_sql_nor_text_is_passed_on(self, tmp_path: Path) -> None:
        with closing(open_connection(tmp_path / "a.db")) as connection:
            connection.execute("CREATE VIRTUAL TABLE f USING fts5(x)")
            with pytest.raises(driver.Error) as caught:
                connection.execute("SELECT * FROM f(?)", ("private:x",))
        failure = driver.translated(caught.value)
        assert type(failure) is StorageFailed
        assert "private" in str(caught.value)
        assert "private" not in failure.message + failure.hint
        assert "SQLITE_ERROR" in failure.message

    def test_extended_codes_get_the_hint_of_their_primary_code(self) -> None:
        error = driver.OperationalError("x")
        error.sqlite_errorname = "SQLITE_IOERR_WRITE"
        assert "disk" in driver.translated(error).hint

    def test_an_error_without_a_code_is_named_by_its_class(self) -> None:
        assert "OperationalError" in driver.translated(driver.OperationalError("x")).message


@pytest.mark.skipif(bool(strace_is_missing()), reason="no file fails to open without strace")
@pytest.mark.parametrize(("file", "call"), [("a.db", 2), ("a.db-wal", 1)])
def test_a_file_that_opens_only_for_reading_is_refused_at_the_opening(
    tmp_path: Path, file: str, call: int
) -> None:
    """The first call on the database tries to create it."""
    path = tmp_path / "a.db"
    opening = f"from agentctx.storage.file.driver import open_connection; open_connection({str(path)!r})"
    fault = f"inject=openat:error=EIO:when={call}"
    strace = ["strace", "-f", "-o", "/dev/null", "-P", str(tmp_path / file), "-e", "trace=openat"]
    command = [*strace, "-e", fault, sys.executable, "-c", opening]
    with closing(open_connection(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "StorageFailed" in done.stderr
    assert "SQLITE_READONLY" in done.stderr


def test_a_full_disk_during_a_copy_is_reported_as_such(tmp_path: Path) -> None:
    with (
        closing(open_connection(tmp_path / "a.db")) as source,
        closing(Connection(tmp_path / "b.db")) as target,
    ):
        source.execute("CREATE TABLE t AS SELECT zeroblob(100000) AS x")
        target.execute("PRAGMA max_page_count = 2")
        with pytest.raises(driver.Error) as caught:
            source.backup(target)
    assert isinstance(driver.translated(caught.value), StorageFull)


def test_pysqlite3_errors_differ_from_those_of_the_standard_module() -> None:
    if driver.driver_name() == "pysqlite3":
        assert not issubclass(driver.Error, sqlite3.Error)
