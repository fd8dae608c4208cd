"""The doctor's findings about connected agents, on separate files."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from agentctx.agents.connect.agents import AgentPaths, Launch, edits_of
from agentctx.agents.connect.changes import connect_change
from agentctx.agents.connect.connected_files import ConnectedFiles
from agentctx.agents.connect.files import content, replace
from agentctx.cli.checkup import ask_bridge, find_agents
from agentctx.doctor.catalog import select
from agentctx.doctor.check import run_checks
from agentctx.doctor.contexts import Contact
from agentctx.errors import AlreadyRunning
from agentctx.wire import CheckResult
from tests.doctor.contexts import machine

ANSWERING = """import json, sys
sys.stdin.readline()
print(json.dumps({"id": 1, "result": {"content": [{"type": "text", "text": "Found."}], "isError": FAILED}}))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Write the command that agents start; it answers like the bridge."""
    path = tmp_path / "agentctx"
    path.write_text(f"#!{sys.executable}\n{ANSWERING.replace('FAILED', 'False')}", "utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def ledger(tmp_path: Path, program: Path) -> Path:
    """The list of connections once Cursor and Codex are connected."""
    path = tmp_path / "connections.json"
    launch = Launch((str(program),), "/run/a.sock")
    places = AgentPaths(tmp_path / "home", {})
    for agent in ("cursor", "codex"):
        for file in edits_of(agent, places, launch) or []:
            change = connect_change(file.path, agent, content(file.path), None, file.edits)
            assert change is not None
            assert change.after is not None
            replace(file.path, change.after)
            ConnectedFiles(path).record(file.path, change.written)
    return path


def examined(ledger: Path, socket: str = "/run/a.sock", *, is_running: bool = True) -> dict[str, CheckResult]:
    held = AlreadyRunning("Another agentctx daemon has locked it.") if is_running else None
    context = machine(
        socket=Path(socket),
        contact=Contact(socket=socket, lock_refusal=held),
        find_agents=lambda: find_agents(ledger),
        ask_bridge=ask_bridge,
    )
    results = asyncio.run(run_checks(select(["connections"]), context))
    return {each.id.partition(".")[2]: each for each in results}


def statuses(found: dict[str, CheckResult]) -> dict[str, str]:
    return {name: check.status for name, check in found.items()}


def test_all_is_well_after_connecting(ledger: Path) -> None:
    found = statuses(examined(ledger))
    assert found == dict.fromkeys(["entries", "program", "socket", "bridge"], "pass")


def test_without_connections_there_is_nothing_to_check(tmp_path: Path) -> None:
    assert set(statuses(examined(tmp_path / "none")).values()) == {"skip"}


def test_an_entry_that_was_taken_out_is_named(ledger: Path, tmp_path: Path) -> None:
    cursor = tmp_path / "home/.cursor/mcp.json"
    cursor.write_text('{"mcpServers": {}}', "utf-8")
    hooks = tmp_path / "home/.cursor/hooks.json"
    hooks.write_text('{"version": 1, "hooks": {"sessionStart": []}}', "utf-8")
    (tmp_path / "home/.codex/config.toml").write_text("broken = ", "utf-8")
    entries = (examined(ledger))["entries"]
    assert (entries.status, entries.message) == ("warn", "3 files of agents lost what connects them")
    assert str(cursor) in entries.detail
    assert str(hooks) in entries.detail
    assert "connect --undo" in entries.hint


def test_edits_beside_our_section_are_ignored(ledger: Path, tmp_path: Path) -> None:
    config = tmp_path / "home/.codex/config.toml"
    config.write_text("model = 'm'\n" + config.read_text("utf-8"), "utf-8")
    cursor = tmp_path / "home/.cursor/mcp.json"
    cursor.write_text(
        cursor.read_text("utf-8").replace('"command":', '"disabled": false, "command":'), "utf-8"
    )
    assert (examined(ledger))["entries"].status == "pass"


def test_a_missing_program_is_named(ledger: Path, program: Path) -> None:
    program.unlink()
    found = examined(ledger)
    assert statuses(found) | {"entries": "pass"} == statuses(found)
    assert (found["program"].status, str(program) in found["program"].message) == ("fail", True)
    assert found["bridge"].status == "fail"


def test_another_socket_is_named(ledger: Path) -> None:
    found = (examined(ledger, "/run/b.sock"))["socket"]
    assert (found.status, "/run/a.sock" in found.message) == ("warn", True)


def test_a_bridge_that_cannot_answer_says_why(ledger: Path, program: Path) -> None:
    program.write_text(program.read_text("utf-8").replace("False", "True"), "utf-8")
    found = (examined(ledger))["bridge"]
    assert (found.status, found.detail) == ("fail", "The memory does not answer. Found.")


def test_the_bridge_is_not_asked_while_no_daemon_is_running(ledger: Path, program: Path) -> None:
    program.write_text("#!/bin/false", "utf-8")
    assert (examined(ledger, is_running=False))["bridge"].status == "skip"
