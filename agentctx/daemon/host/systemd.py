"""The interface to systemd: the listening socket, readiness, reloads and the watchdog.

Implements sd_notify(3) and sd_listen_fds(3). Without systemd, nothing is sent or received.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from agentctx.errors import ConfigInvalid

log = structlog.get_logger("agentctx.daemon")

FIRST_FD: Final = 3
SEND_TIMEOUT_S: Final = 1.0
_VARIABLES: Final = (
    *("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"),
    *("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"),
)

Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Systemd:
    """What systemd passed to this process. All fields are None if systemd did not start the daemon."""

    address: str | None = None
    """The address for notifications; starts with `/`, or with `@` if it is abstract."""
    watchdog_s: float | None = None
    """systemd kills the daemon if it receives no notification for this long."""
    listening: socket.socket | None = None
    """The socket on which systemd listens for us."""

    def ready(self, status: str) -> None:
        """Report that requests are served, or that a reload has ended; `systemctl status` shows `status`."""
        self._notify("READY=1", f"STATUS={_one_line(status)}")

    def reloading(self) -> None:
        """Report that the configuration is being reloaded; call `ready` afterwards."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
        self._notify("RELOADING=1", f"MONOTONIC_USEC={now_us}", "STATUS=Reloading the configuration.")

    def stopping(self) -> None:
        """Report that no new requests are accepted."""
        self._notify("STOPPING=1", "STATUS=Finishing work in progress.")

    def failed(self, reason: str) -> None:
        """Report why the daemon ends; `systemctl status` shows it until the next start."""
        self._notify(f"STATUS={_one_line(reason)}")

    def refuse_waiting(self) -> None:
        """Close the connections that wait: for each of them systemd would start the daemon again, in vain."""
        with suppress(OSError):  # no more are waiting
            while self.listening is not None:
                self.listening.accept()[0].close()

    def alive(self) -> None:
        """Reset the watchdog timer."""
        self._notify("WATCHDOG=1")

    def _notify(self, *lines: str) -> None:
        if self.address is None:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.settimeout(SEND_TIMEOUT_S)
                sock.connect(address)
                sock.sendall("\n".join(lines).encode())
        except OSError as error:
            log.warning("systemd_not_notified", about=lines[0], reason=error.strerror or str(error))


def take_from_environment(env: MutableMapping[str, str] = os.environ, *, pid: int | None = None) -> Systemd:
    """Return what systemd passed to this process, and remove its variables so that no child acts on them.

    Raises:
        ConfigInvalid: systemd passed several sockets, or one that is not a listening Unix stream socket.
    """
    given = {name: env.pop(name, "") for name in _VARIABLES}
    me = str(os.getpid() if pid is None else pid)
    return Systemd(
        address=_notification_address(given["NOTIFY_SOCKET"]),
        watchdog_s=_watchdog_s(given["WATCHDOG_USEC"]) if given["WATCHDOG_PID"] in {"", me} else None,
        listening=_listening(given["LISTEN_FDS"]) if given["LISTEN_PID"] == me else None,
    )


class ActivatedSocket:
    """Takes the place of a `SocketWatcher` when systemd listens; systemd owns the file, so it stays."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.path = socket_path(listening)

    def bind(self) -> socket.socket:
        """Return the socket from systemd, without binding one."""
        return self._listening

    def remove(self) -> None:
        """Do nothing: systemd keeps listening, and starts the daemon again for the next client."""

    async def watch(self, move: Callable[[socket.socket], Awaitable[None]]) -> None:
        """Do nothing: only systemd can recreate this socket."""


def socket_path(listening: socket.socket) -> Path:
    """Return the path at which clients find a Unix socket."""
    return Path(os.fsdecode(listening.getsockname()))


@dataclass
class LivenessProbe:
    """Checks without blocking whether `call` still answers. It keeps one call open at a time, and considers
    `call` stuck when a call has been open for `limit_s` seconds.

    An error is an answer: a database that reports a full disk is not stuck, and a restart would not help.
    """

    call: Callable[[], Awaitable[object]]
    limit_s: float
    clock: Callable[[], float] = time.monotonic
    _called_at: float = field(default=0.0, init=False)
    _open: asyncio.Future[object] | None = field(default=None, init=False)

    def answers(self) -> bool:
        """Start a new call if the last one has returned; return whether the open one is within the limit."""
        if self._open is None or self._open.done():
            self._called_at = self.clock()
            self._open = asyncio.ensure_future(self.call())
            self._open.add_done_callback(_inspect_error)
        return self.clock() - self._called_at < self.limit_s

    async def close(self) -> None:
        """Cancel the open call."""
        if self._open is not None:
            self._open.cancel()
            await asyncio.wait([self._open])


async def keep_alive(
    systemd: Systemd,
    database: LivenessProbe,
    *,
    trouble: Callable[[], str] = lambda: "",
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Notify the watchdog twice per interval while the database answers. Runs until cancelled or it is stuck.

    A stuck event loop sends nothing either, and a background task that dies ends the daemon.
    While `trouble` returns a reason, nothing is sent: it may pass before systemd acts. Return immediately if
    there is no watchdog.
    """
    if systemd.watchdog_s is None:
        return
    try:
        reported = ""
        while database.answers():
            reason = trouble()
            if not reason:
                systemd.alive()
            elif reason != reported:
                log.critical("watchdog_not_notified", reason=reason)
            reported = reason
            await sleep(systemd.watchdog_s / 2)
        log.critical("watchdog_not_notified", reason="the database does not answer; systemd ends this now")
    finally:
        await database.close()


def _inspect_error(answer: asyncio.Future[object]) -> None:
    if not answer.cancelled() and (error := answer.exception()):
        log.debug("asked_and_failed", reason=str(error))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _notification_address(given: str) -> str | None:
    if not given:
        return None
    if given[0] not in "/@":
        log.warning("systemd_not_notified", about="anything", reason=f"no Unix address: {given[:100]}")
        return None
    return given


def _watchdog_s(given: str) -> float | None:
    return int(given) / 1e6 if given.isdecimal() and int(given) else None


def _listening(count: str) -> socket.socket | None:
    if count in {"", "0"}:
        return None
    if count != "1":
        raise ConfigInvalid(
            f"systemd passed {count[:20]} sockets; exactly one is needed.",
            hint="Set exactly one ListenStream= in agentctx.socket.",
        )
    os.set_inheritable(FIRST_FD, False)
    listening = socket.socket(fileno=FIRST_FD)
    if not _is_unix_listener(listening):
        listening.close()
        raise ConfigInvalid(
            "systemd passed a socket that is not a listening Unix stream socket.",
            hint="Set ListenStream= in agentctx.socket to a path such as /run/agentctx/agentctx.sock.",
        )
    listening.setblocking(False)
    return listening


def _is_unix_listener(sock: socket.socket) -> bool:
    return (
        sock.family == socket.AF_UNIX
        and sock.type == socket.SOCK_STREAM
        and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        and bool(sock.getsockname())
        and os.fsencode(sock.getsockname())[:1] == b"/"
    )
