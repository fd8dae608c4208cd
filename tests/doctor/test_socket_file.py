from __future__ import annotations

import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentctx.cli.checkup import look_at_socket
from agentctx.doctor.check import run_checks
from agentctx.doctor.contexts import SocketFacts
from agentctx.doctor.socket_file import judge_folder, judge_socket
from agentctx.wire import CheckResult
from tests.doctor.contexts import machine

PATH = Path("/run/a.sock")
ME, OTHER = 1000, 1001


@pytest.fixture
def folder() -> Iterator[Path]:
    # The folder of a test can be longer than a socket path may be.
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@contextmanager
def bound(path: Path, mode: int = 0o600, *, listening: bool = True) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        path.chmod(mode)
        if listening:
            sock.listen(4)
        yield


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_the_mode_of_a_socket_that_systemd_made_is_not_judged(mode: int) -> None:
    finding = judge_socket(PATH, SocketFacts(mode, OTHER, "listening"), configured_mode=None, me=ME)
    assert finding.status == "pass"
    assert "made by systemd" in finding.message


@pytest.mark.parametrize(("me", "status"), [(ME, "pass"), (0, "warn"), (OTHER, "warn")])
def test_who_may_connect_to_another_users_socket_is_that_users_affair(me: int, status: str) -> None:
    finding = judge_socket(PATH, SocketFacts(0o660, OTHER, "listening"), configured_mode=0o600, me=me)
    assert finding.status == status


async def look(path: Path, *, configured: int = 0o600, fix: bool = False) -> CheckResult:
    def remove() -> str:
        path.unlink()
        return "removed it"

    context = machine(
        socket=path,
        socket_mode=configured,
        look_at_socket=lambda: look_at_socket(path),
        remove_stale_socket=remove,
    )
    return (await run_checks(["socket.file"], context, fix=fix))[0]


@pytest.mark.parametrize(
    ("mode", "configured", "status", "fixable"),
    [
        (0o600, 0o600, "pass", False),
        (0o660, 0o660, "pass", False),
        (0o660, 0o600, "warn", False),
        (0o666, 0o600, "fail", True),
        (0o664, 0o660, "fail", True),
        (0o200, 0o600, "fail", True),
    ],
)
def test_the_mode(mode: int, configured: int, status: str, fixable: bool) -> None:
    finding = judge_socket(PATH, SocketFacts(mode, ME, "listening"), configured_mode=configured, me=ME)
    assert (finding.status, finding.fixable) == (status, fixable)


def test_a_socket_of_another_user_is_not_repaired() -> None:
    for facts in (SocketFacts(0o666, OTHER, "listening"), SocketFacts(0o600, OTHER, "gone")):
        finding = judge_socket(PATH, facts, configured_mode=0o600, me=ME)
        assert (finding.is_trouble, finding.fixable) == (True, False)


async def test_no_socket_is_skipped(folder: Path) -> None:
    assert (await look(folder / "s")).status == "skip"


async def test_another_file_at_the_path_fails_and_is_not_touched(folder: Path) -> None:
    (folder / "s").write_text("mine")
    result = await look(folder / "s", fix=True)
    assert (result.status, result.fixed) == ("fail", None)
    assert (folder / "s").read_text() == "mine"


async def test_a_socket_that_somebody_listens_on_is_well(folder: Path) -> None:
    with bound(folder / "s"):
        assert (await look(folder / "s")).status == "pass"


async def test_a_socket_that_is_open_to_everybody_is_closed(folder: Path) -> None:
    with bound(folder / "s", 0o666):
        assert (await look(folder / "s")).status == "fail"
        result = await look(folder / "s", configured=0o660, fix=True)
    assert (result.status, result.fixed) == ("pass", f"set mode 0660 on {folder / 's'}")
    assert stat.S_IMODE((folder / "s").stat().st_mode) == 0o660


async def test_a_socket_that_was_left_over_is_removed(folder: Path) -> None:
    with bound(folder / "s"):
        pass
    assert look_at_socket(folder / "s") == SocketFacts(0o600, (folder / "s").stat().st_uid, "gone")
    assert (await look(folder / "s")).status == "warn"
    result = await look(folder / "s", fix=True)
    assert (result.status, result.fixed) == ("skip", "removed it")
    assert not (folder / "s").exists()


@pytest.mark.parametrize(
    ("mode", "status"),
    [
        (stat.S_IFDIR | 0o700, "pass"),
        (stat.S_IFDIR | 0o1777, "pass"),
        (stat.S_IFDIR | 0o777, "fail"),
        (stat.S_IFREG, "fail"),
    ],
)
def test_the_folder(mode: int, status: str) -> None:
    assert judge_folder(Path("/run"), mode).status == status
