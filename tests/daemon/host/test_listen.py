# ruff: noqa: ASYNC240 - the files of a test are looked at in its loop
from __future__ import annotations

import asyncio
import contextlib
import grp
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentctx.config.paths import MAX_SOCKET_PATH_BYTES
from agentctx.config.schema import ServerSettings
from agentctx.daemon.host import listen
from agentctx.daemon.host.listen import SocketWatcher, bind_socket, remove_socket, socket_inode
from agentctx.errors import AlreadyRunning, ConfigInvalid

LISTENER = """
import sys
from pathlib import Path
from agentctx.daemon.host.listen import bind_socket
sock = bind_socket(Path(sys.argv[1]))
print("bound", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for a socket path, wherever the tests run."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_one_can_connect_and_the_file_is_private(folder: Path) -> None:
    path = folder / "new" / "s"
    with bind_socket(path) as sock, socket.socket(socket.AF_UNIX) as client:
        client.connect(os.fspath(path))
        assert mode_of(path) == 0o600
        assert mode_of(path.parent) == 0o700
        assert sock.getblocking() is False


@pytest.mark.parametrize("umask", [0, 0o777])
def test_the_mode_is_the_one_asked_for_under_any_umask(folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with bind_socket(folder / "s", 0o660, grp.getgrgid(os.getgid()).gr_name):
            assert mode_of(folder / "s") == 0o660
            assert (folder / "s").stat().st_gid == os.getgid()
            assert os.umask(umask) == umask
    finally:
        os.umask(before)


def test_the_file_is_never_wider_than_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    chown = os.chown

    def watch(path: Path, uid: int, gid: int) -> None:
        seen.append(mode_of(path))
        chown(path, uid, gid)

    monkeypatch.setattr(os, "chown", watch)
    with bind_socket(folder / "s", 0o660, grp.getgrgid(os.getgid()).gr_name):
        assert seen == [0o600]


def test_a_stale_file_is_replaced(folder: Path) -> None:
    path = folder / "s"
    with subprocess.Popen(
        [sys.executable, "-c", LISTENER, os.fspath(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"bound\n"
        process.kill()
    assert path.is_socket()
    with bind_socket(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(os.fspath(path))


def test_a_live_socket_is_not_removed(folder: Path) -> None:
    path = folder / "s"
    with bind_socket(path):
        inode = socket_inode(path)
        with pytest.raises(AlreadyRunning, match="listens on"):
            bind_socket(path)
        assert socket_inode(path) == inode


def test_a_busy_socket_is_live_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queue is full: a connection is neither taken nor refused."""
    path = folder / "s"
    monkeypatch.setattr(listen, "_PROBE_TIMEOUT_S", 0.01)
    with contextlib.ExitStack() as stack:
        owner = stack.enter_context(socket.socket(socket.AF_UNIX))
        owner.bind(os.fspath(path))
        owner.listen(0)
        client = stack.enter_context(socket.socket(socket.AF_UNIX))
        client.connect(os.fspath(path))
        with pytest.raises(AlreadyRunning):
            bind_socket(path)


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling link"])
def test_what_is_not_a_socket_is_never_removed(folder: Path, kind: str) -> None:
    path = folder / "s"
    if kind == "file":
        path.write_text("keep")
    elif kind == "folder":
        path.mkdir()
    else:
        if kind == "link":
            (folder / "target").write_text("keep")
        path.symlink_to(folder / "target")
    before = path.lstat()
    with pytest.raises(ConfigInvalid, match="is not a socket"):
        bind_socket(path)
    assert path.lstat() == before


def test_a_path_may_have_just_the_length_the_system_takes(folder: Path) -> None:
    length = MAX_SOCKET_PATH_BYTES - len(os.fsencode(folder)) - 1
    with pytest.raises(ConfigInvalid, match=f"allows {MAX_SOCKET_PATH_BYTES}"):
        bind_socket(folder / ("é" * (length // 2) + "ab"))
    with bind_socket(folder / ("a" * (length if sys.platform == "linux" else length - 1))):
        pass


def test_a_folder_anyone_may_write_to_is_refused_unless_sticky(folder: Path) -> None:
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(ConfigInvalid, match="Every user can write"):
        bind_socket(shared / "s")
    shared.chmod(0o1777)
    bind_socket(shared / "s").close()


def test_an_unknown_group_leaves_no_file(folder: Path) -> None:
    with pytest.raises(ConfigInvalid, match="Unknown group 'no-such-group'"):
        bind_socket(folder / "s", 0o660, "no-such-group")
    assert not (folder / "s").exists()


@pytest.mark.parametrize("error", [PermissionError(1, "Operation not permitted"), OSError(5, "I/O error")])
def test_a_group_that_may_not_be_given_leaves_no_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(ConfigInvalid):
        bind_socket(folder / "s", 0o660, grp.getgrgid(os.getgid()).gr_name)
    assert not (folder / "s").exists()


def test_a_folder_that_cannot_be_made(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(ConfigInvalid, match="Cannot create a socket at"):
        bind_socket(folder / "file" / "s")


def test_only_our_file_is_removed(folder: Path) -> None:
    path = folder / "s"
    with bind_socket(path):
        ours = socket_inode(path)
        path.rename(folder / "old")  # keeps its inode from being used again
        with bind_socket(path):
            assert remove_socket(path, ours) is False
            assert path.exists()
            assert remove_socket(path, socket_inode(path)) is True
    assert not path.exists()
    assert remove_socket(path, ours) is False


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ctx") as folder:
        yield Path(folder) / "run" / "a.sock"


class Watched:
    """Stands in for sleep: the watcher checks when the test says so."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(0)
        self._waits = asyncio.Event()

    async def sleep(self, _seconds: float) -> None:
        self._waits.set()
        await self._turn.acquire()

    async def look(self) -> None:
        """Let it look once, and wait until it has."""
        await self._waits.wait()
        self._waits.clear()
        self._turn.release()
        await self._waits.wait()


async def watched(watcher: SocketWatcher, *steps: object) -> list[socket.socket]:
    """Run the steps with a check of the socket after each; return the sockets the watcher moved to."""
    moved: list[socket.socket] = []
    looks = Watched()

    async def move(listening: socket.socket) -> None:
        moved.append(listening)

    watching = asyncio.create_task(watcher.watch(move, sleep=looks.sleep))
    for step in steps:
        if callable(step):
            step()
        await looks.look()
    watching.cancel()
    return moved


def can_connect(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


async def test_a_file_that_stays_is_not_removed(path: Path) -> None:
    watcher = SocketWatcher(path, ServerSettings())
    with watcher.bind():
        inode = path.stat().st_ino
        assert await watched(watcher, None, None) == []
        assert path.stat().st_ino == inode


async def test_a_file_that_was_removed_is_made_again_with_its_folder(path: Path) -> None:
    watcher = SocketWatcher(path, ServerSettings())

    def remove() -> None:
        path.unlink()
        path.parent.rmdir()

    with watcher.bind(), capture_logs() as logs:
        (listening,) = await watched(watcher, remove, None)
        with listening:
            assert can_connect(path)
            assert path.stat().st_mode & 0o777 == 0o600
            assert [line["event"] for line in logs] == ["socket_bound_again"]
            watcher.remove()
            assert not path.exists(), "the new file is ours too"


@pytest.mark.parametrize("kind", ["file", "link", "link to ours", "folder", "pipe", "listening socket"])
async def test_a_replacement_at_the_path_is_reported_and_left_until_it_is_gone(path: Path, kind: str) -> None:
    watcher = SocketWatcher(path, ServerSettings())
    aside = path.with_name("aside")
    other = socket.socket(socket.AF_UNIX)

    def replace() -> None:
        path.rename(aside)
        match kind:
            case "file":
                path.write_text("precious")
            case "link":
                path.symlink_to("nowhere")
            case "link to ours":
                path.symlink_to(aside)
            case "folder":
                path.mkdir()
            case "pipe":
                os.mkfifo(path)
            case _:
                other.bind(str(path))
                other.listen()

    def give_way() -> None:
        path.rename(path.with_name("kept"))

    with watcher.bind(), other, capture_logs() as logs:
        moved = await watched(watcher, replace, None, give_way)
        assert [line["event"] for line in logs] == ["socket_is_gone", "socket_bound_again"]
        assert path.with_name("kept").lstat()
        (listening,) = moved
        with listening:
            assert can_connect(path)


async def test_a_dead_socket_in_its_place_is_replaced(path: Path) -> None:
    watcher = SocketWatcher(path, ServerSettings())

    def replace() -> None:
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))

    with watcher.bind():
        (listening,) = await watched(watcher, replace)
        with listening:
            assert can_connect(path)


async def test_a_touched_socket_is_still_ours(path: Path) -> None:
    watcher = SocketWatcher(path, ServerSettings())
    with watcher.bind(), capture_logs() as logs:
        assert await watched(watcher, lambda: os.utime(path, (1, 1)), None) == []
        assert logs == []


async def test_a_file_with_the_inode_of_ours_is_not_removed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = SocketWatcher(path, ServerSettings())
    with watcher.bind():
        path.unlink()
        path.write_text("precious")
        monkeypatch.setattr(watcher, "_inode", socket_inode(path))
        assert await watched(watcher, None) == []
        watcher.remove()
    assert path.read_text() == "precious"


async def test_a_folder_that_cannot_be_looked_into_is_looked_at_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = SocketWatcher(path, ServerSettings())

    def refuse(_: Path) -> bool:
        raise PermissionError

    def close() -> None:
        path.unlink()
        monkeypatch.setattr(Path, "lstat", refuse)

    with watcher.bind():
        (listening,) = await watched(watcher, close, None, monkeypatch.undo)
        listening.close()


async def test_a_socket_that_cannot_be_made_is_reported_once_and_tried_again(path: Path) -> None:
    watcher = SocketWatcher(path, ServerSettings())
    folder = path.parent

    def spoil() -> None:
        path.unlink()
        folder.chmod(0o777)

    with watcher.bind(), capture_logs() as logs:
        moved = await watched(watcher, spoil, None, lambda: folder.chmod(0o700))
        assert [line["event"] for line in logs] == ["socket_is_gone", "socket_bound_again"]
        assert "Every user can write" in logs[0]["problem"]
        (listening,) = moved
        listening.close()
