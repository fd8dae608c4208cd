"""The daemon as systemd runs it: with a notify socket, and with socket activation."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentctx import Client
from agentctx.daemon.host.systemd import FIRST_FD, LivenessProbe, Systemd, keep_alive, take_from_environment
from agentctx.errors import ConfigInvalid, StorageFull

ACTIVATE = shutil.which("systemd-socket-activate")
WAIT_S = 30.0
CONFIG = '[embedding]\nprovider = "none"\n'


class NotifySocket:
    """The socket on which systemd listens. `heard` has all messages so far."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.heard: list[list[str]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.settimeout(WAIT_S)

    def wait_for(self, line: str, *, after: int = 0) -> list[str]:
        """The first message, from number `after` on, that has this line."""
        while True:
            for message in self.heard[after:]:
                if line in message:
                    return message
            self.heard.append(self._socket.recv(4_096).decode().split("\n"))

    def close(self) -> None:
        self._socket.close()


class Supervised:
    """`agentctx serve` with the environment that systemd gives it."""

    def __init__(self, folder: Path, notify: NotifySocket, *, activated: bool = False) -> None:
        self.socket = folder / "a.sock"
        self.config = folder / "agentctx.toml"
        self.config.write_text(CONFIG)
        command = [sys.executable, "-m", "agentctx", "serve", "--config", str(self.config)]
        command += ["--data-dir", str(folder / "data")]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCTX_")}
        given = {"NOTIFY_SOCKET": notify.address, "WATCHDOG_USEC": "100000", "XDG_STATE_HOME": str(folder)}
        if activated:
            passed = [word for name in given for word in ("-E", name)]
            command = [str(ACTIVATE), *passed, "-E", "PATH", "-E", "HOME", "-l", str(self.socket), *command]
        else:
            command += ["--socket", str(self.socket)]
        self.process = subprocess.Popen(
            command, env=environment | given, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_S)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT_S)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ctx") as name:
        yield Path(name)


@pytest.fixture
def notify(folder: Path) -> Iterator[NotifySocket]:
    notify = NotifySocket(str(folder / "notify"))
    yield notify
    notify.close()


@pytest.fixture
def start(folder: Path, notify: NotifySocket) -> Iterator[Callable[..., Supervised]]:
    with ExitStack() as stack:

        def started(*, activated: bool = False) -> Supervised:
            daemon = Supervised(folder, notify, activated=activated)
            stack.callback(daemon.end)
            return daemon

        yield started


def test_its_whole_life_is_reported(start: Callable[..., Supervised], notify: NotifySocket) -> None:
    daemon = start()
    assert f"STATUS=Serving on {daemon.socket}." in notify.wait_for("READY=1")
    with Client(daemon.socket, timeout_s=WAIT_S) as client:
        assert client.status().pid == daemon.process.pid, "READY=1 means that it answers"
    notify.wait_for("WATCHDOG=1")
    notify.wait_for("WATCHDOG=1", after=len(notify.heard))
    assert daemon.stop() == 0
    notify.wait_for("STOPPING=1")
    assert not daemon.socket.exists()


def test_sighup_reloads_settings_and_reports_those_that_need_a_restart(
    start: Callable[..., Supervised], notify: NotifySocket
) -> None:
    daemon = start()
    notify.wait_for("READY=1")
    with Client(daemon.socket, timeout_s=WAIT_S) as client:
        for number in range(3):
            client.save_knowledge(f"k{number}", f"deploy with step {number}")
        assert len(client.search("deploy").results) == 3
        daemon.config.write_text(f"{CONFIG}rag.max_results = 1\n[storage]\nreaders = 5\n")
        heard, before = len(notify.heard), time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
        daemon.process.send_signal(signal.SIGHUP)
        began = notify.wait_for("RELOADING=1", after=heard)
        (told_us,) = (line.removeprefix("MONOTONIC_USEC=") for line in began if "MONOTONIC_USEC=" in line)
        assert int(told_us) >= before
        ended = notify.wait_for("READY=1", after=heard)
        assert f"STATUS=Serving on {daemon.socket}. Needs a restart: storage.readers." in ended
        assert len(client.search("deploy").results) == 1


def test_a_broken_file_is_reported_and_the_old_settings_stay(
    start: Callable[..., Supervised], notify: NotifySocket
) -> None:
    daemon = start()
    notify.wait_for("READY=1")
    daemon.config.write_text("[embedding\n")
    heard = len(notify.heard)
    daemon.process.send_signal(signal.SIGHUP)
    (status,) = (line for line in notify.wait_for("READY=1", after=heard) if line.startswith("STATUS="))
    assert "The configuration was not reloaded" in status
    assert "is not valid TOML" in status
    with Client(daemon.socket, timeout_s=WAIT_S) as client:
        assert client.status().pid == daemon.process.pid


@pytest.mark.skipif(ACTIVATE is None, reason="NOT TESTED: socket activation, no systemd-socket-activate here")
def test_a_socket_that_systemd_listens_on_is_used_and_left(
    start: Callable[..., Supervised], notify: NotifySocket, folder: Path
) -> None:
    daemon = start(activated=True)
    with Client(daemon.socket, timeout_s=WAIT_S, start_timeout_s=WAIT_S) as client:
        status = client.status()
    assert status.socket == str(daemon.socket)
    assert f"STATUS=Serving on {daemon.socket}." in notify.wait_for("READY=1")
    assert peer_pid(daemon.socket) == status.pid, "clients see the daemon, not who listened first"
    inode = daemon.socket.stat().st_ino
    assert not list(folder.glob("*.lock")), "a file that is not ours needs no lock"
    assert daemon.stop() == 0
    notify.wait_for("STOPPING=1")
    assert daemon.socket.stat().st_ino == inode


def peer_pid(path: Path) -> int:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        found = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", found)[0])


def test_an_abstract_address_is_reported_too() -> None:
    notify = NotifySocket(f"@agentctx-test-{os.getpid()}")
    Systemd(address=notify.address).ready("all\nis well")
    assert notify.wait_for("READY=1") == ["READY=1", "STATUS=all is well"], "a status is one line"
    notify.close()


def test_a_failed_notification_is_logged_and_ignored(tmp_path: Path) -> None:
    with capture_logs() as logs:
        Systemd(address=str(tmp_path / "nobody")).stopping()
    assert [(line["event"], line["about"]) for line in logs] == [("systemd_not_notified", "STOPPING=1")]


def test_the_environment_is_taken_once() -> None:
    env = {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7", "HOME": "/x"}
    assert take_from_environment(env, pid=7) == Systemd("/run/n", 30.0, None)
    assert env == {"HOME": "/x"}
    assert take_from_environment(env, pid=7) == Systemd()


def test_sockets_for_another_process_are_not_used() -> None:
    env = {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8", "LISTEN_FDS": "1", "LISTEN_PID": "8"}
    assert take_from_environment(env, pid=7) == Systemd()


@pytest.mark.parametrize("address", ["vsock:2:1234", "relative"])
def test_an_address_of_another_kind_is_logged_and_left(address: str) -> None:
    with capture_logs() as logs:
        assert take_from_environment({"NOTIFY_SOCKET": address}) == Systemd()
    assert [line["event"] for line in logs] == ["systemd_not_notified"]


def test_more_than_one_socket_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="passed 2 sockets"):
        take_from_environment({"LISTEN_FDS": "2", "LISTEN_PID": "7"}, pid=7)


def test_a_socket_of_another_kind_is_refused(folder: Path) -> None:
    code = (
        "import os, socket\n"
        "from agentctx.daemon.host.systemd import take_from_environment\n"
        "sock = socket.create_server(('127.0.0.1', 0))\n"
        f"os.dup2(sock.fileno(), {FIRST_FD})\n"
        "take_from_environment({'LISTEN_FDS': '1', 'LISTEN_PID': '7'}, pid=7)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ConfigInvalid: systemd passed a socket that is not a listening Unix stream socket" in done.stderr


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_the_watchdog_is_not_notified_while_the_database_hangs(notify: NotifySocket) -> None:
    clock, waits = Clock(), 0

    async def stuck() -> None:
        await asyncio.Event().wait()

    async def sleep(seconds: float) -> None:
        nonlocal waits
        waits += 1
        clock.now += seconds
        await asyncio.sleep(0)

    systemd = Systemd(address=notify.address, watchdog_s=30.0)
    with capture_logs() as logs:
        await keep_alive(systemd, LivenessProbe(stuck, 60.0, clock), sleep=sleep)
    assert waits == 4, "twice in its time, until the patience of a minute is over"
    assert [line["event"] for line in logs] == ["watchdog_not_notified"]


async def test_the_watchdog_hears_nothing_while_there_is_trouble_and_then_again(
    notify: NotifySocket,
) -> None:
    troubles = ["", "stalled", "stalled", "broken", ""]

    async def sleep(_: float) -> None:
        if not troubles:
            raise asyncio.CancelledError
        await asyncio.sleep(0)

    async def well() -> None:
        """It answers immediately."""

    systemd = Systemd(address=notify.address, watchdog_s=30.0)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await keep_alive(systemd, LivenessProbe(well, 60.0), trouble=lambda: troubles.pop(0), sleep=sleep)
    Systemd(address=notify.address).stopping()
    notify.wait_for("STOPPING=1")
    assert notify.heard[:-1] == [["WATCHDOG=1"]] * 2
    assert [line["reason"] for line in logs] == ["stalled", "broken"], "each trouble is logged once"


async def test_an_error_is_an_answer() -> None:
    clock = Clock()

    async def full() -> None:
        raise StorageFull("no space left")

    database = LivenessProbe(full, 60.0, clock)
    for _ in range(5):
        assert database.answers()
        clock.now += 59.0
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await database.close()


async def test_without_a_watchdog_nothing_is_asked() -> None:
    async def unasked() -> None:
        raise AssertionError("it was asked")

    await keep_alive(Systemd(), LivenessProbe(unasked, 1.0))


def test_connections_that_wait_are_closed_and_later_ones_are_not(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        listening.setblocking(False)
        waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(3)]
        for client in waiting:
            client.connect(str(tmp_path / "s"))
        Systemd(listening=listening).refuse_waiting()
        assert [client.recv(1) for client in waiting] == [b""] * 3
        waiting[0].close()
        later = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        later.connect(str(tmp_path / "s"))
        for client in (*waiting, later):
            client.close()
    Systemd().refuse_waiting()
