from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.errors import StorageFailed
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.open_files import FilesAtPath, FileStatus, OpenFiles, Remedy, choose_remedy, loss

OURS, ABSENT, OTHER, UNKNOWN = FileStatus.OURS, FileStatus.ABSENT, FileStatus.OTHER, FileStatus.UNKNOWN
ELSEWHERE = Path("/elsewhere/a.db")


@pytest.mark.parametrize(
    ("facts", "remedy"),
    [
        (FilesAtPath(OURS), Remedy.NONE),
        (FilesAtPath(OURS, UNKNOWN), Remedy.NONE),
        (FilesAtPath(UNKNOWN), Remedy.NONE),
        (FilesAtPath(OURS, ABSENT), Remedy.RENEW_WAL),
        (FilesAtPath(OURS, OTHER), Remedy.RENEW_WAL),
        (FilesAtPath(ABSENT), Remedy.WRITE_OUT),
        (FilesAtPath(OTHER), Remedy.WRITE_BESIDE),
        (FilesAtPath(ABSENT, moved_to=ELSEWHERE), Remedy.AWAIT_RETURN),
        (FilesAtPath(OTHER, moved_to=ELSEWHERE), Remedy.AWAIT_RETURN),
    ],
)
def test_the_remedy_follows_from_the_files_at_the_path(facts: FilesAtPath, remedy: Remedy) -> None:
    assert choose_remedy(facts) is remedy
    fault = loss(facts, Path("/data/a.db"))
    assert (fault is None) == (remedy is Remedy.NONE)
    assert fault is None or fault.hint


def test_a_moved_folder_is_reported_with_its_new_path() -> None:
    fault = loss(FilesAtPath(ABSENT, moved_to=ELSEWHERE), Path("/data/a.db"))
    assert fault is not None
    assert str(ELSEWHERE) in fault.message
    assert "--data-dir /elsewhere" in fault.hint


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "a.db"


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    with closing(open_connection(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
        yield connection


@pytest.fixture
def files(connection: Connection, path: Path) -> Iterator[OpenFiles]:
    files = OpenFiles(path)
    yield files
    files.close()


def test_files_in_place_are_not_a_loss(files: OpenFiles) -> None:
    assert files.facts() == FilesAtPath(OURS)
    assert files.loss() is None


def test_a_removed_database_is_absent(files: OpenFiles, path: Path) -> None:
    path.unlink()
    assert files.facts() == FilesAtPath(ABSENT)


def test_a_replaced_database_is_another_file(files: OpenFiles, path: Path) -> None:
    other = path.with_name("other")
    other.touch()
    other.replace(path)
    assert files.facts() == FilesAtPath(OTHER)


def test_a_moved_folder_is_found(files: OpenFiles, path: Path) -> None:
    elsewhere = path.parent.rename(path.parent.with_name("elsewhere"))
    assert files.facts() == FilesAtPath(ABSENT, moved_to=elsewhere / path.name)
    path.parent.mkdir()
    path.touch()
    assert files.facts() == FilesAtPath(OTHER, moved_to=elsewhere / path.name)


def test_another_hard_link_does_not_count_as_moved(files: OpenFiles, path: Path) -> None:
    path.with_name("snapshot").hardlink_to(path)
    path.unlink()
    assert choose_remedy(files.facts()) is Remedy.WRITE_OUT


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_removed_wal_or_shm_is_noticed(files: OpenFiles, path: Path, end: str) -> None:
    path.with_name(path.name + end).unlink()
    assert files.facts() == FilesAtPath(OURS, ABSENT)


def test_another_wal_is_distinguished_from_ours(files: OpenFiles, path: Path) -> None:
    wal = path.with_name(f"{path.name}-wal")
    wal.unlink()
    wal.touch()
    assert files.facts() == FilesAtPath(OURS, OTHER)
    assert list(files.side_files(OTHER)) == [wal]
    assert list(files.side_files(OURS)) == [path.with_name(f"{path.name}-shm")]


def test_watching_a_database_does_not_drop_its_locks(connection: Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    OpenFiles(path).close()
    before = Path("/proc/locks").read_text(encoding="ascii")
    assert f":{path.stat().st_ino} " in before


def test_a_missing_database_cannot_be_watched(path: Path) -> None:
    with pytest.raises(StorageFailed, match="Cannot open"):
        OpenFiles(path)
