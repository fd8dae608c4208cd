"""Checks that the agents connected by `agentctx connect` still reach the memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from agentctx.connect.changes import connect_change
from agentctx.connect.exchange import EXCHANGE_S, ExchangeFailed, exchange, servers
from agentctx.connect.files import content
from agentctx.connect.ledger import ConnectedFile, Ledger
from agentctx.doctor.check import Check, Finding, blocking, failed, passed, skipped, warned
from agentctx.errors import ConfigInvalid
from agentctx.wording import counted, listed

_AGAIN = "Run `agentctx connect` again."


def connection_checks(ledger: Path, socket: Path, *, is_running: bool) -> list[Check]:
    """Return the checks. `ledger` lists the connections, `socket` is the daemon's, asked if `is_running`."""

    @cache
    def files() -> Mapping[Path, ConnectedFile]:
        return Ledger(ledger).all()

    def commands() -> list[list[str]]:
        found = [tuple(command) for each in files().values() for command in servers(each.edits)]
        return [list(command) for command in dict.fromkeys(found)]

    def look(judge: Callable[[], Finding]) -> Callable[[], Finding]:
        return lambda: judge() if files() else skipped("no agent is connected")

    def bridge() -> Finding:
        return judge_bridge(_failures(commands())) if is_running else skipped("no daemon is running")

    return [
        Check(id="connections.entries", run=blocking(look(lambda: judge_entries(_drift(files()))))),
        Check(id="connections.program", run=blocking(look(lambda: judge_programs(_missing(commands()))))),
        Check(id="connections.socket", run=blocking(look(lambda: judge_sockets(commands(), socket)))),
        Check(
            id="connections.bridge",
            run=blocking(look(bridge)),
            timeout_s=2 * EXCHANGE_S,
        ),
    ]


def judge_entries(problems: Sequence[str]) -> Finding:
    """Judge the settings files; `problems` names those that lost what was written into them."""
    if problems:
        return warned(
            f"{counted(len(problems), 'file')} of agents lost what connects them",
            detail="; ".join(problems),
            hint=f"{_AGAIN} To keep it out: `agentctx connect --undo`.",
        )
    return passed("the settings of agents are as they were written")


def judge_programs(missing: Sequence[str]) -> Finding:
    if missing:
        return failed(
            f"agents start a program that is gone: {listed(missing)}",
            hint=f"{_AGAIN} It writes the path of the program that runs it.",
        )
    return passed("the program that agents start is there")


def judge_sockets(commands: Sequence[Sequence[str]], socket: Path) -> Finding:
    others = sorted({named for command in commands if (named := _socket_of(command)) != str(socket)})
    if others:
        return warned(
            f"agents use another socket: {listed(others)}",
            detail=f"This daemon listens on {socket}.",
            hint=f"{_AGAIN} Name the socket with `agentctx --socket`.",
        )
    return passed("agents use this daemon's socket")


def judge_bridge(failures: Sequence[str]) -> Finding:
    if failures:
        return failed(
            "the bridge of agents does not answer",
            detail="; ".join(failures),
            hint="Run `agentctx mcp` by hand; the checks of the daemon say whether it answers.",
        )
    return passed("the bridge of agents answers")


def _drift(files: Mapping[Path, ConnectedFile]) -> list[str]:
    problems = []
    for path, known in files.items():
        try:
            change = connect_change(
                path, known.agent, content(path), known, known.edits, project=known.project
            )
        except (ConfigInvalid, OSError) as error:
            problems.append(error.message if isinstance(error, ConfigInvalid) else str(error))
        else:
            problems += [str(path)] if change is not None else []
    return problems


def _missing(commands: Sequence[Sequence[str]]) -> list[str]:
    programs = sorted({command[0] for command in commands})
    return [program for program in programs if not os.access(program, os.X_OK)]


def _socket_of(command: Sequence[str]) -> str:
    return command[command.index("--socket") + 1] if "--socket" in command[:-1] else ""


def _failures(commands: Sequence[Sequence[str]]) -> list[str]:
    """Return the failure of the first command, if any: the others differ only in the agent's name."""
    for command in commands[:1]:
        try:
            exchange(command)
        except ExchangeFailed as failure:
            return [str(failure)]
    return []
