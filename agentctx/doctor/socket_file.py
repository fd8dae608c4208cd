"""Checks of the daemon's socket and its folder: who may connect, and whether a process listens."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentctx.doctor.check import Check, Finding, blocking, failed, passed, skipped, warned
from agentctx.host.listen import SocketAnswer, probe_socket


@dataclass(frozen=True, slots=True)
class SocketFacts:
    """The file at the path. `answer` is the result of connecting, None if it is not a socket."""

    mode: int
    uid: int
    answer: SocketAnswer | None


def socket_checks(path: Path, *, wanted_mode: int | None, remove_stale: Callable[[], str]) -> list[Check]:
    """Return the checks. `wanted_mode` is `server.socket_mode`, None for a socket made by systemd.

    `remove_stale` removes the file, under the socket's lock, if no process listens, and returns what it did.
    """
    folder = path.absolute().parent

    def repair() -> str:
        facts = check_socket(path)
        if facts is not None and facts.answer == "gone":
            return remove_stale()
        if wanted_mode is None:
            return f"left {path} as systemd made it"
        path.chmod(wanted_mode)
        return f"set mode {wanted_mode:04o} on {path}"

    return [
        Check(id="socket.folder", run=blocking(lambda: _check_folder(folder))),
        Check(
            id="socket.file",
            run=blocking(
                lambda: judge_socket(path, check_socket(path), wanted_mode=wanted_mode, me=os.geteuid())
            ),
            fix=blocking(repair),
        ),
    ]


def _check_folder(folder: Path) -> Finding:
    if not folder.exists():
        return skipped(f"{folder} does not exist yet; the daemon creates it")
    return judge_folder(folder, folder.stat().st_mode)


def judge_folder(folder: Path, mode: int) -> Finding:
    if not stat.S_ISDIR(mode):
        return failed(f"{folder} is not a folder", hint="Choose another path with --socket.")
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        return failed(
            f"every user can write to {folder}, so anyone could put another socket there",
            hint=f"Run `chmod o-w {folder}`, or choose another path with --socket.",
        )
    return passed(f"no other user can replace a socket in {folder}")


def check_socket(path: Path) -> SocketFacts | None:
    """Return the facts of the file, or None if there is nothing at the path."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    answer = probe_socket(path) if stat.S_ISSOCK(status.st_mode) else None
    return SocketFacts(stat.S_IMODE(status.st_mode), status.st_uid, answer)


def judge_socket(path: Path, facts: SocketFacts | None, *, wanted_mode: int | None, me: int) -> Finding:
    if facts is None:
        return skipped(f"{path} does not exist")
    if facts.answer is None:
        return failed(f"{path} is not a socket", hint="Move it, or choose another path with --socket.")
    is_ours = me in {0, facts.uid}
    if facts.answer == "gone":
        return warned(
            f"{path} is stale: no process listens on it",
            hint=f"Start the daemon, which replaces it, or run `rm {path}`.",
            fixable=is_ours,
        )
    if wanted_mode is None:
        return passed(f"{path}, mode {facts.mode:04o}, made by systemd: agentctx.socket says who may connect")
    if not is_ours and not _fault_of_mode(facts.mode):
        return passed(f"{path}, mode {facts.mode:04o}: its owner decides who may connect")
    return _judge_mode(path, facts.mode, wanted_mode, is_ours=is_ours)


def _judge_mode(path: Path, mode: int, wanted: int, *, is_ours: bool) -> Finding:
    if problem := _fault_of_mode(mode):
        return failed(
            f"{path} has mode {mode:04o}: {problem}",
            hint=f"Run `chmod {wanted:o} {path}`.",
            fixable=is_ours,
        )
    if mode != wanted:
        return warned(
            f"{path} has mode {mode:04o}, server.socket_mode is {wanted:04o}",
            hint="Name the daemon's own config with --config, or restart the daemon if it was changed since.",
        )
    return passed(f"{path}, mode {mode:04o}")


def _fault_of_mode(mode: int) -> str:
    if mode & 0o007:
        return "every user of the machine may connect"
    return "" if mode & 0o600 == 0o600 and mode & 0o111 == 0 else "its owner cannot read and write it"
