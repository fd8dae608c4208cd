"""Checks that the agents connected by `agentctx connect` still reach the memory."""

from __future__ import annotations

import os
from typing import Final

from agentctx.doctor.check import Finding, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import Machine
from agentctx.wire.wording import counted, listed

BRIDGE_S: Final = 40.0
"""Timeout of asking a bridge; longer than its own, so that its error shows."""
_AGAIN = "Run `agentctx connect` again."


@check(Machine, "connections.entries")
def check_entries(machine: Machine) -> Finding:
    if lost := machine.find_agents().lost:
        return warned(
            f"{counted(len(lost), 'file')} of agents lost what connects them",
            detail="; ".join(lost),
            hint=f"{_AGAIN} To keep it out: `agentctx connect --undo`.",
        )
    return passed("the settings of agents are as they were written")


@check(Machine, "connections.program")
def check_program(machine: Machine) -> Finding:
    programs = sorted({command[0] for command in machine.find_agents().commands})
    if missing := [program for program in programs if not os.access(program, os.X_OK)]:
        return failed(
            f"agents start a program that is gone: {listed(missing)}",
            hint=f"{_AGAIN} It writes the path of the program that runs it.",
        )
    return passed("the program that agents start is there")


@check(Machine, "connections.socket")
def check_socket(machine: Machine) -> Finding:
    ours = machine.socket.absolute()
    used = {
        command[command.index("--socket") + 1] if "--socket" in command[:-1] else ""
        for command in machine.find_agents().commands
    }
    if others := sorted(used - {str(ours)}):
        return warned(
            f"agents use another socket: {listed(others)}",
            detail=f"This daemon listens on {ours}.",
            hint=f"{_AGAIN} Name the socket with `agentctx --socket`.",
        )
    return passed("agents use this daemon's socket")


@check(Machine, "connections.bridge", timeout_s=BRIDGE_S)
def check_bridge(machine: Machine) -> Finding:
    """Ask the first bridge: the others differ only in the agent's name."""
    commands = machine.find_agents().commands
    if not machine.contact.is_running:
        return skipped("no daemon is running")
    if commands and (failure := machine.ask_bridge(commands[0])):
        return failed(
            "the bridge of agents does not answer",
            detail=failure,
            hint="Run `agentctx mcp` by hand; the checks of the daemon say whether it answers.",
        )
    return passed("the bridge of agents answers")
