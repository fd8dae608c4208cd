"""Sessions of opencode: what its plugin sends to the hook and what its database has make the same entries."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agentctx.agents.hooks.capture import TurnCapture
from agentctx_importers.opencode import TRANSCRIPTS
from agentctx_importers.records import Record, RefusedItem
from agentctx_importers_tests.conftest import ImportCommand
from agentctx_importers_tests.samples import (
    ASKED,
    FACT,
    TIME,
    TOLD,
    opencode_database,
    opencode_message,
)
from agentctx_importers_tests.test_transcripts import entries_in
from tests.end_to_end.daemon_process import DaemonProcess

LATER = TIME.replace("678", "679")


def tool(name: str, command: str, output: str = "", exit_code: int = 0) -> dict[str, Any]:
    state = {"status": "completed", "input": {"command": command}, "output": output}
    return {
        "type": "tool",
        "callID": name,
        "tool": "bash",
        "state": state | {"metadata": {"exit": exit_code}},
    }


CALLS = (tool("c1", "make tset", "make: *** No rule to make target 'tset'", 2), tool("c2", "make test"))
MESSAGES = (
    opencode_message("user", FACT),
    opencode_message("assistant", "Noted.", *CALLS, at=1),
    opencode_message("user", ASKED, at=2),
    opencode_message("assistant", TOLD, at=3),
    opencode_message("assistant", "We decided to keep port 8443.", at=4, summary=True),
)
SENT: list[dict[str, Any]] = [
    {"timestamp": TIME, "prompt": FACT, "typed": FACT},
    {
        "timestamp": LATER,
        "call": {
            "id": "c1",
            "name": "bash",
            "command": "make tset",
            "error": "make: *** No rule to make target 'tset'",
        },
    },
    {"timestamp": LATER, "call": {"id": "c2", "name": "bash", "command": "make test", "error": None}},
    {"timestamp": LATER, "answer": "Noted."},
    {"timestamp": TIME.replace("678", "680"), "prompt": ASKED, "typed": ASKED},
    {"timestamp": TIME.replace("678", "681"), "answer": TOLD},
    {"timestamp": TIME.replace("678", "682"), "summary": "We decided to keep port 8443."},
]
"""What the plugin makes of these messages."""


@pytest.fixture
def database(home: Path) -> Path:
    """A session in the place where opencode keeps its own."""
    folder = home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    return opencode_database(folder / "opencode.db", *MESSAGES)


def records(path: Path) -> list[Record]:
    return [each for each in TRANSCRIPTS.read(path) if isinstance(each, Record)]


def test_what_hooks_saved_is_not_imported_and_an_import_alone_gives_the_same(
    database: Path, daemon: DaemonProcess, import_from: ImportCommand
) -> None:
    hook = TurnCapture("opencode", "1", "oc-hooked", str(daemon.socket), deadline=1e9)
    for end in (4, len(SENT)):  # the end of each turn
        hook.capture("session.idle", {"session_id": "ses_1", "messages": SENT[:end]})
    captured = entries_in(daemon, "oc-hooked")
    assert {each.collection for each in captured} == {"observation", "learning", "reflection"}
    report = import_from("opencode", "--namespace", "oc-hooked")
    assert (report["imported"], report["unchanged"]) == (0, len(captured)), import_from.err
    assert entries_in(daemon, "oc-hooked") == captured
    import_from("opencode", "--namespace", "oc-alone")
    alone = entries_in(daemon, "oc-alone")
    same = ("collection", "session", "agent", "content", "attributes")
    assert sorted(str([getattr(each, name) for name in same]) for each in alone) == sorted(
        str([getattr(each, name) for name in same]) for each in captured
    )
    assert {each.trust for each in alone} == {"external"}, "it does not tell what was typed from a command"


def test_what_a_command_or_another_agent_wrote_was_not_typed(database: Path) -> None:
    marked = {"type": "text", "text": FACT, "metadata": {"agentctx": {}}}
    turn = (opencode_message("user", marked, at=9), opencode_message("assistant", TOLD, at=10))
    opencode_database(database, *turn, id="ses_2")
    opencode_database(
        database,
        opencode_message("user", FACT, at=20),
        opencode_message("assistant", TOLD, at=21),
        id="ses_3",
        parent="ses_1",
    )
    found = [each for each in records(database) if each.session in {"2", "3"}]
    assert [(each.session, each.fields["part"]) for each in found] == [("2", "answer"), ("3", "answer")]
    assert {each.content for each in found} == {f"User: {FACT}\n\nAssistant: {TOLD}"}


def test_a_fork_repeats_its_session_and_is_read_once(database: Path) -> None:
    before = len(records(database))
    opencode_database(database, *MESSAGES[:4], id="ses_2")
    assert len(records(database)) == before


def test_a_database_in_use_is_read_and_nothing_in_it_runs(database: Path, tmp_path: Path) -> None:
    writer = sqlite3.connect(database)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE victim (text)")
    writer.execute("CREATE TRIGGER t AFTER INSERT ON message BEGIN INSERT INTO victim VALUES ('ran'); END")
    writer.execute("UPDATE session SET directory = '/moved'")
    writer.commit()
    writer.execute("BEGIN EXCLUSIVE")
    try:
        assert len(records(database)) == 4
    finally:
        writer.close()


def test_sessions_of_the_next_version_are_refused_and_the_others_read(database: Path) -> None:
    with sqlite3.connect(database) as writer:
        writer.execute("CREATE TABLE session_v2 (id text)")
    refused, *read = TRANSCRIPTS.read(database)
    assert isinstance(refused, RefusedItem)
    assert "opencode 2" in refused.reason
    assert len(read) == 4


@pytest.mark.parametrize("data", ["", "[]", "x" * 100, json.dumps({"role": "user", "time": 7}), "null"])
def test_a_damaged_message_is_refused_or_says_nothing(data: str, database: Path) -> None:
    with sqlite3.connect(database) as writer:
        row = ("broken", "ses_1", 1_767_323_045_680, data)
        writer.execute("INSERT INTO message VALUES (?, ?, ?3, ?3, ?4)", row)
        writer.execute("INSERT INTO part VALUES ('p', 'broken', 'ses_1', 0, 0, ?)", (data,))
    items = list(TRANSCRIPTS.read(database))
    assert len([each for each in items if isinstance(each, Record)]) == 4
    assert all(each.where == "message broken" for each in items if isinstance(each, RefusedItem))
