from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from agentctx.errors import StorageClosed, StorageFailed
from agentctx.storage.file import copy as copy_module
from agentctx.storage.file.copy import (
    BUSY_S,
    REST,
    CopyPace,
    VerifiedCopy,
    check_pages,
    copy_file,
    copy_pages,
    file_digest,
    keep_copy,
)
from agentctx.storage.file.driver import Connection, open_connection
from tests.storage.file.row_digest import row_digest

ROWS = 2_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with closing(open_connection(path)) as writer:
        writer.execute("CREATE TABLE t (x, y)")
        writer.execute("CREATE TABLE w (name TEXT PRIMARY KEY, v BLOB) WITHOUT ROWID")
        writer.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
        writer.execute("CREATE VIRTUAL TABLE vectors USING vec0(v float[4])")
        writer.execute("BEGIN")
        writer.executemany("INSERT INTO t VALUES (?, ?)", ((n, os.urandom(2_000)) for n in range(ROWS)))
        writer.execute("INSERT INTO w VALUES ('ü', x'00')")
        writer.execute("INSERT INTO words VALUES ('some words')")
        writer.execute("INSERT INTO vectors (rowid, v) VALUES (1, '[1, 2, 3, 4]')")
        writer.execute("COMMIT")
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[Connection]:
    with closing(open_connection(path, readonly=True)) as connection:
        yield connection


def count(path: Path) -> int:
    with closing(open_connection(path, readonly=True)) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM t").fetchone()[0])


class TestKeepCopy:
    def test_keeps_the_copy_in_one_private_file(self, path: Path, reader: Connection, tmp_path: Path) -> None:
        target = tmp_path / "copies" / "b.db"
        target.parent.mkdir()
        copy_pages(reader, target)
        assert [each.name for each in target.parent.iterdir()] == ["b.db.partial"]
        copied = keep_copy(target)
        assert list(target.parent.iterdir()) == [target]
        assert target.stat().st_mode & 0o777 == 0o600
        assert copied == VerifiedCopy(target.stat().st_size, hashlib.sha256(target.read_bytes()).hexdigest())
        assert row_digest(target) == row_digest(path)

    def test_refuses_a_copy_that_reads_back_differently(
        self, reader: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        digests = iter(["as written", "as read"])
        monkeypatch.setattr(copy_module, "file_digest", lambda *_, **__: next(digests))
        copy_pages(reader, tmp_path / "b.db")
        with pytest.raises(StorageFailed, match="returns different data"):
            keep_copy(tmp_path / "b.db")
        assert not list(tmp_path.glob("b.db*"))

    def test_refuses_damaged_pages_and_keeps_the_old_copy(self, reader: Connection, tmp_path: Path) -> None:
        target = tmp_path / "b.db"
        target.write_bytes(b"the old one")
        copy_pages(reader, target)
        partial = tmp_path / "b.db.partial"
        octets = bytearray(partial.read_bytes())
        octets[4096:4104] = b"\xff" * 8
        partial.write_bytes(octets)
        with pytest.raises(StorageFailed, match="damaged"):
            keep_copy(target)
        assert target.read_bytes() == b"the old one"
        assert not partial.exists()

    @pytest.mark.parametrize("step", ["copy_pages", "keep_copy"])
    def test_leaves_the_old_copy_when_stopped(self, reader: Connection, tmp_path: Path, step: str) -> None:
        target = tmp_path / "b.db"
        target.write_bytes(b"the old one")
        stop = threading.Event()
        if step == "keep_copy":
            copy_pages(reader, target)
        stop.set()
        steps: dict[str, Callable[..., object]] = {
            "copy_pages": partial(copy_pages, reader),
            "keep_copy": keep_copy,
        }
        with pytest.raises(StorageClosed):
            steps[step](target, pace=CopyPace(stop))
        assert target.read_bytes() == b"the old one"
        assert not list(tmp_path.glob("*.partial"))

    def test_has_what_was_written_while_it_was_copied(self, path: Path, tmp_path: Path) -> None:
        steps = []

        class WritesAtEveryStep(threading.Event):
            def is_set(self) -> bool:
                steps.append(writer.execute("INSERT INTO t VALUES (0, 'new')"))
                return False

        with closing(open_connection(path)) as writer:
            copy_pages(writer, tmp_path / "b.db", pace=CopyPace(WritesAtEveryStep()))
        keep_copy(tmp_path / "b.db")
        assert len(steps) > 5
        assert count(tmp_path / "b.db") >= ROWS + len(steps) - 1  # the last is written after the copying

    def test_leaves_the_old_copy_when_killed_and_can_be_repeated(
        self, path: Path, reader: Connection, tmp_path: Path
    ) -> None:
        target = tmp_path / "b.db"
        copy_pages(reader, target)
        first = keep_copy(target)
        program = f"""
import os, signal
from agentctx.storage.file import copy
from agentctx.storage.file.driver import open_connection
copy.check_pages = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
copy.copy_pages(open_connection({str(path)!r}, readonly=True), copy.Path({str(target)!r}))
copy.keep_copy(copy.Path({str(target)!r}))
"""
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
        assert list(tmp_path.glob("*.partial"))
        assert file_digest(target) == first.digest
        copy_pages(reader, target)
        assert keep_copy(target).digest == first.digest
        assert not list(tmp_path.glob("*.partial"))

    @pytest.mark.parametrize("target", ["missing/b.db", "a.db/b.db"])
    def test_to_an_invalid_path_fails(self, reader: Connection, tmp_path: Path, target: str) -> None:
        with pytest.raises(StorageFailed, match="Cannot"):
            copy_pages(reader, tmp_path / target)

    def test_without_a_copy_fails(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFailed, match="Cannot write"):
            keep_copy(tmp_path / "b.db")


class TestCopyFile:
    @pytest.fixture
    def backup(self, reader: Connection, tmp_path: Path) -> Path:
        copy_pages(reader, tmp_path / "b.db")
        keep_copy(tmp_path / "b.db")
        return tmp_path / "b.db"

    def test_copies_every_byte(self, backup: Path, tmp_path: Path) -> None:
        target = tmp_path / "c.db"
        copied = copy_file(backup, target, digest=file_digest(backup))
        assert target.read_bytes() == backup.read_bytes()
        assert target.stat().st_mode & 0o777 == 0o600
        assert copied == VerifiedCopy(backup.stat().st_size, file_digest(backup))

    def test_refuses_a_file_with_another_digest(self, backup: Path, tmp_path: Path) -> None:
        digest = file_digest(backup)
        with backup.open("ab") as file:
            file.write(b"more")
        with pytest.raises(StorageFailed, match="different data"):
            copy_file(backup, tmp_path / "c.db", digest=digest)
        assert not list(tmp_path.glob("c.db*"))

    def test_to_an_invalid_path_fails(self, backup: Path, tmp_path: Path) -> None:
        with pytest.raises(StorageFailed, match="Cannot write"):
            copy_file(backup, tmp_path / "missing" / "c.db", digest="")


class TestCheckPages:
    @pytest.mark.parametrize("octets", [b"not a database " * 100, b"SQLite format 3\x00" + b"\x00" * 84])
    def test_of_a_foreign_file_fails(self, tmp_path: Path, octets: bytes) -> None:
        (tmp_path / "b.db").write_bytes(octets)
        with pytest.raises(StorageFailed):
            check_pages(tmp_path / "b.db")


class RecordingStop(threading.Event):
    """A stop event that records waits instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.rests.append(timeout)
        return False


class TestPace:
    def work(self) -> None:
        until = time.thread_time() + 2 * BUSY_S
        while time.thread_time() < until:
            pass

    def test_rests_for_a_multiple_of_the_time_worked(self) -> None:
        watch = RecordingStop()
        pace = CopyPace(watch, rests=True)
        for _ in range(3):
            self.work()
            pace.step()
        assert len(watch.rests) == 3
        assert all(rest >= REST * 2 * BUSY_S for rest in watch.rests)

    def test_does_not_rest_after_little_work(self) -> None:
        watch = RecordingStop()
        pace = CopyPace(watch, rests=True)
        pace.step()
        assert not watch.rests

    def test_does_not_rest_unless_asked_to(self) -> None:
        watch = RecordingStop()
        pace = CopyPace(watch)
        self.work()
        pace.step()
        assert not watch.rests

    def test_stops_when_asked_to(self) -> None:
        stop = threading.Event()
        pace = CopyPace(stop, rests=True)
        pace.step()
        stop.set()
        with pytest.raises(StorageClosed):
            pace.step()
