from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.errors import StorageFailed
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.open_files import OpenFiles


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


def reason(files: OpenFiles) -> str:
    fault = files.loss()
    assert fault is not None
    assert fault.hint
    return fault.message


def test_files_in_place_are_not_a_loss(files: OpenFiles) -> None:
    assert files.loss() is None


def test_a_removed_database_is_noticed(files: OpenFiles, path: Path) -> None:
    path.unlink()
    assert reason(files) == f"{path} was removed or moved while it was open."


def test_a_replaced_database_is_noticed(files: OpenFiles, path: Path) -> None:
    other = path.with_name("other")
    other.touch()
    other.replace(path)
    assert reason(files) == f"{path} was replaced by another file while it was open."


def test_a_moved_folder_is_noticed(files: OpenFiles, path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))
    assert "removed or moved" in reason(files)


def test_another_hard_link_does_not_replace_the_name(files: OpenFiles, path: Path) -> None:
    path.with_name("snapshot").hardlink_to(path)
    path.unlink()
    assert "removed or moved" in reason(files)


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_removed_or_replaced_wal_or_index_is_noticed(files: OpenFiles, path: Path, end: str) -> None:
    assert files.loss() is None
    side = path.with_name(path.name + end)
    side.unlink()
    assert reason(files) == f"{side} was removed or moved while it was open."
    side.touch()
    assert reason(files) == f"{side} was replaced by another file while it was open."
    files.forget_side_files()
    assert files.loss() is None


def test_what_cannot_be_examined_is_no_loss(
    files: OpenFiles, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("agentctx.storage.file.open_files.os.stat", refuse)
        found = files.loss()
    assert found is None


def test_side_files_are_removed_only_if_they_are_ours_and_the_database_is_gone(
    files: OpenFiles, path: Path
) -> None:
    wal, shm = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    assert files.loss() is None
    wal.unlink()
    wal.touch()
    files.remove_side_files()
    assert shm.exists()
    path.unlink()
    files.remove_side_files()
    assert (wal.exists(), shm.exists()) == (True, False)


def test_watching_a_database_does_not_drop_its_locks(connection: Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    OpenFiles(path).close()
    before = Path("/proc/locks").read_text(encoding="ascii")
    assert f":{path.stat().st_ino} " in before


def test_a_missing_database_cannot_be_watched(path: Path) -> None:
    with pytest.raises(StorageFailed, match="Cannot open"):
        OpenFiles(path)
