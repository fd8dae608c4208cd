# ruff: noqa: ASYNC240 - the files of a test are looked at in its loop
from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentctx.config.schema import ServerSettings
from agentctx.host.socket_keeper import SocketKeeper


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ctx") as folder:
        yield Path(folder) / "run" / "a.sock"


class Looks:
    """Stands in for sleep: the keeper looks when the test says so."""

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


async def looked_after(keeper: SocketKeeper, *steps: object) -> list[socket.socket]:
    """What was moved to while each of the steps was followed by a look."""
    moved: list[socket.socket] = []
    looks = Looks()

    async def move(listening: socket.socket) -> None:
        moved.append(listening)

    watching = asyncio.create_task(keeper.watch(move, sleep=looks.sleep))
    for step in steps:
        if callable(step):
            step()
        await looks.look()
    watching.cancel()
    return moved


def can_connect(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


async def test_a_file_that_stays_is_left_alone(path: Path) -> None:
    keeper = SocketKeeper(path, ServerSettings())
    with keeper.bind():
        inode = path.stat().st_ino
        assert await looked_after(keeper, None, None) == []
        assert path.stat().st_ino == inode


async def test_a_file_that_was_removed_is_made_again_with_its_folder(path: Path) -> None:
    keeper = SocketKeeper(path, ServerSettings())

    def remove() -> None:
        path.unlink()
        path.parent.rmdir()

    with keeper.bind(), capture_logs() as logs:
        (listening,) = await looked_after(keeper, remove, None)
        with listening:
            assert can_connect(path)
            assert path.stat().st_mode & 0o777 == 0o600
            assert [line["event"] for line in logs] == ["socket_bound_again"]
            keeper.remove()
            assert not path.exists(), "the new file is ours too"


async def test_what_is_there_instead_is_left_alone(path: Path) -> None:
    keeper = SocketKeeper(path, ServerSettings())

    def replace() -> None:
        path.unlink()
        path.write_text("precious")

    with keeper.bind():
        assert await looked_after(keeper, replace) == []
        keeper.remove()
    assert path.read_text() == "precious"


async def test_a_folder_that_cannot_be_looked_into_is_looked_at_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = SocketKeeper(path, ServerSettings())

    def refuse(_: Path) -> bool:
        raise PermissionError

    def close() -> None:
        path.unlink()
        monkeypatch.setattr(Path, "exists", refuse)

    with keeper.bind():
        (listening,) = await looked_after(keeper, close, None, monkeypatch.undo)
        listening.close()


async def test_a_socket_that_cannot_be_made_is_reported_once_and_tried_again(path: Path) -> None:
    keeper = SocketKeeper(path, ServerSettings())
    folder = path.parent

    def spoil() -> None:
        path.unlink()
        folder.chmod(0o777)

    with keeper.bind(), capture_logs() as logs:
        moved = await looked_after(keeper, spoil, None, lambda: folder.chmod(0o700))
        assert [line["event"] for line in logs] == ["socket_is_gone", "socket_bound_again"]
        assert "Every user can write" in logs[0]["problem"]
        (listening,) = moved
        listening.close()
