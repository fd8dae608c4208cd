"""Checks of the daemon's socket and its folder: who may connect, and whether a process listens."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from agentctx.doctor.check import Finding, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import Machine, SocketFacts


@check(Machine, "socket.folder")
def check_folder(machine: Machine) -> Finding:
    folder = machine.socket.absolute().parent
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


def _repair(machine: Machine) -> str:
    path, mode, facts = machine.socket, machine.socket_mode, machine.look_at_socket()
    if facts is not None and facts.answer == "gone":
        return machine.remove_stale_socket()
    if mode is None:
        return f"left {path} as systemd made it"
    path.chmod(mode)
    return f"set mode {mode:04o} on {path}"


@check(Machine, "socket.file", fix=_repair)
def check_socket(machine: Machine) -> Finding:
    return judge_socket(
        machine.socket, machine.look_at_socket(), configured_mode=machine.socket_mode, me=os.geteuid()
    )


def judge_socket(path: Path, facts: SocketFacts | None, *, configured_mode: int | None, me: int) -> Finding:
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
    if configured_mode is None:
        return passed(f"{path}, mode {facts.mode:04o}, made by systemd: agentctx.socket says who may connect")
    if not is_ours and not _fault_of_mode(facts.mode):
        return passed(f"{path}, mode {facts.mode:04o}: its owner decides who may connect")
    return _judge_mode(path, facts.mode, configured_mode, is_ours=is_ours)


def _judge_mode(path: Path, mode: int, configured: int, *, is_ours: bool) -> Finding:
    if problem := _fault_of_mode(mode):
        return failed(
            f"{path} has mode {mode:04o}: {problem}",
            hint=f"Run `chmod {configured:o} {path}`.",
            fixable=is_ours,
        )
    if mode != configured:
        return warned(
            f"{path} has mode {mode:04o}, server.socket_mode is {configured:04o}",
            hint="Name the daemon's own config with --config, or restart the daemon if it was changed since.",
        )
    return passed(f"{path}, mode {mode:04o}")


def _fault_of_mode(mode: int) -> str:
    if mode & 0o007:
        return "every user of the machine may connect"
    return "" if mode & 0o600 == 0o600 and mode & 0o111 == 0 else "its owner cannot read and write it"
