from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentctx.errors import StorageFull
from agentctx.storage.file.commit import CompletedWrite, FailedWrite, Outcome
from agentctx.storage.file.driver import Connection, Error, open_connection
from agentctx.storage.file.reserve import (
    MARGIN_BYTES,
    RESERVE_NAME,
    STEP_BYTES,
    Reserve,
    ReserveState,
    Write,
    commit_within,
    has_room,
)

WANTED = 2 * STEP_BYTES


@pytest.mark.parametrize(
    ("state", "is_whole", "is_spent"),
    [
        (ReserveState(None, WANTED), False, False),
        (ReserveState(WANTED, WANTED), True, False),
        (ReserveState(STEP_BYTES, WANTED), False, True),
        (ReserveState(0, WANTED), False, True),
        (ReserveState(None, 0), True, False),
    ],
)
def test_only_a_released_reserve_counts_as_spent(state: ReserveState, is_whole: bool, is_spent: bool) -> None:
    assert (state.is_whole, state.is_spent) == (is_whole, is_spent)


def test_filling_requires_some_free_space_beyond_the_reserve() -> None:
    state = ReserveState(STEP_BYTES, WANTED)
    assert has_room(state, STEP_BYTES + MARGIN_BYTES)
    assert not has_room(state, STEP_BYTES + MARGIN_BYTES - 1)


def allocated_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_it_allocates_real_space_and_releases_it_in_steps(tmp_path: Path) -> None:
    reserve, path = Reserve(tmp_path, WANTED), tmp_path / RESERVE_NAME
    assert reserve.fill()
    assert allocated_bytes(path) >= WANTED
    assert path.stat().st_mode & 0o777 == 0o600
    assert reserve.give_up()
    assert reserve.state() == ReserveState(STEP_BYTES, WANTED)
    assert reserve.give_up()
    assert not reserve.give_up()
    assert reserve.state().is_spent, "also after a restart"
    assert reserve.fill()
    assert allocated_bytes(path) >= WANTED


def test_a_reserve_of_size_zero_is_removed(tmp_path: Path) -> None:
    Reserve(tmp_path, WANTED).fill()
    assert Reserve(tmp_path, 0).fill()
    assert not (tmp_path / RESERVE_NAME).exists()


def test_it_is_not_filled_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = shutil.disk_usage(tmp_path)._replace(free=WANTED)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    reserve = Reserve(tmp_path, WANTED)
    assert not reserve.fill()
    assert reserve.state() == ReserveState(None, WANTED)
    assert not reserve.give_up()


def test_a_partial_allocation_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def allocate(descriptor: int, start: int, length: int) -> None:
        os.truncate(descriptor, length // 2)
        raise OSError(28, f"No space left on device at {start}")

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    assert not Reserve(tmp_path, WANTED).fill()
    assert not (tmp_path / RESERVE_NAME).exists()


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with closing(open_connection(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
        yield connection


class Disk:
    """Full until `steps` steps of the reserve have been released."""

    def __init__(self, reserve: Reserve, steps: int) -> None:
        self._reserve = reserve
        self._until = WANTED - steps * STEP_BYTES

    def insert(self, value: str) -> Any:
        def insert_value(connection: Connection) -> str:
            connection.execute("INSERT INTO t VALUES (?)", (value,))
            if (self._reserve.state().kept or 0) > self._until:
                raise disk_full()
            return value

        return insert_value


def disk_full() -> Error:
    error = Error("database or disk is full")
    error.sqlite_errorname = "SQLITE_FULL"
    return error


def results(found: tuple[list[Outcome], int]) -> list[Any]:
    return [each.result if isinstance(each, CompletedWrite) else type(each.error) for each in found[0]]


@pytest.fixture
def reserve(tmp_path: Path) -> Reserve:
    reserve = Reserve(tmp_path, WANTED)
    assert reserve.fill()
    return reserve


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_delete_gets_as_much_of_the_reserve_as_it_needs(
    connection: Connection, reserve: Reserve, steps: int
) -> None:
    disk = Disk(reserve, steps)
    assert results(commit_within(reserve, connection, [Write(disk.insert("a"), uses_reserve=True)])) == ["a"]
    assert reserve.state().kept == WANTED - steps * STEP_BYTES
    assert connection.execute("SELECT x FROM t").fetchall() == [("a",)]


def test_a_delete_is_refused_when_the_reserve_is_used_up(connection: Connection, reserve: Reserve) -> None:
    disk = Disk(reserve, 3)
    found = commit_within(reserve, connection, [Write(disk.insert("a"), uses_reserve=True)])
    assert results(found) == [StorageFull]


def test_a_save_gets_none_of_the_reserve(connection: Connection, reserve: Reserve) -> None:
    disk = Disk(reserve, 1)
    group = [Write(disk.insert("save")), Write(disk.insert("forget"), uses_reserve=True)]
    assert results(commit_within(reserve, connection, group)) == [StorageFull, "forget"]
    assert connection.execute("SELECT x FROM t").fetchall() == [("forget",)]


def test_saves_are_refused_until_the_reserve_is_refilled(
    connection: Connection, reserve: Reserve, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve.give_up()
    assert reserve.state().is_spent
    usage = shutil.disk_usage(connection.execute("PRAGMA database_list").fetchone()[2])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    group = [Write(lambda _: "save"), Write(lambda _: "forget", uses_reserve=True)]
    found = commit_within(reserve, connection, group)
    assert results(found) == [StorageFull, "forget"]
    assert isinstance(found[0][0], FailedWrite)
    assert isinstance(found[0][0].error, StorageFull)
    assert "resumes" in found[0][0].error.hint
    monkeypatch.undo()
    assert results(commit_within(reserve, connection, group)) == ["save", "forget"]
    assert reserve.state().is_whole


def test_a_start_may_write_before_the_reserve_is_in_force(
    tmp_path: Path, connection: Connection, reserve: Reserve, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve.give_up()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    after_restart, group = Reserve(tmp_path, WANTED), [Write(lambda _: "start")]
    assert results(commit_within(after_restart, connection, group)) == ["start"]
    assert not after_restart.fill()
    assert results(commit_within(after_restart, connection, group)) == [StorageFull]


@pytest.mark.parametrize("kind", ["link", "link to nothing", "hard link", "folder", "pipe"])
def test_what_is_not_our_file_is_neither_followed_nor_stops_saves(
    tmp_path: Path, connection: Connection, kind: str
) -> None:
    path, other = tmp_path / RESERVE_NAME, tmp_path / "other"
    path.unlink(missing_ok=True)
    other.write_bytes(b"precious")
    match kind:
        case "link":
            path.symlink_to(other)
        case "link to nothing":
            path.symlink_to("nothing")
        case "hard link":
            os.link(other, path)
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
    reserve = Reserve(tmp_path, WANTED)
    assert not reserve.fill()
    assert not reserve.give_up()
    assert reserve.state() == ReserveState(None, WANTED, is_foreign=True)
    assert results(commit_within(reserve, connection, [Write(lambda _: "save")])) == ["save"]
    assert Reserve(tmp_path, 0).fill()
    assert other.read_bytes() == b"precious"
    assert not (tmp_path / "nothing").exists()
