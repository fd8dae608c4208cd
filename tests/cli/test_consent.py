"""Every question that a command asks, answered with Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from agentctx.cli import undo
from agentctx.wire import EntryPage, ExportedEntry, FileState, RevokeReply
from tests.cli.conftest import Agentctx
from tests.cli.terminal import Terminal
from tests.cli.test_export_format import ENTRY
from tests.cli.test_ingest_report import folder as dear_folder
from tests.cli.test_reembed import HELD
from tests.cli.transcript import remote
from tests.client.stub_daemon import ID, StubDaemon, StubRequest, entry

Prepare = Callable[[StubDaemon, Path], list[str]]


def _interrupt(*_: object) -> NoReturn:
    """Press Ctrl-C as soon as the command reads the user's input."""
    raise KeyboardInterrupt


def _forget(daemon: StubDaemon, home: Path) -> list[str]:
    return ["forget", ID]


def _revoke(daemon: StubDaemon, home: Path) -> list[str]:
    counted = RevokeReply(revocation=None, entries=2, derived=1, held_before=1, dry_run=True)
    daemon.answer("POST", "/v1/revocations", (200, counted))
    return ["revoke", "--agent", "bad"]


def _reembed(daemon: StubDaemon, home: Path) -> list[str]:
    daemon.answer("GET", "/v1/reembed", (200, HELD))
    return ["reembed"]


def _undo(daemon: StubDaemon, home: Path) -> list[str]:
    return ["undo", "--since", "1h"]


def _connect(daemon: StubDaemon, home: Path) -> list[str]:
    (home / ".codex").mkdir()
    return ["connect", "codex"]


def _ingest(daemon: StubDaemon, home: Path) -> list[str]:
    folder = dear_folder.__wrapped__(home, daemon)  # type: ignore[attr-defined] # the function of a fixture
    daemon.answer("GET", "/v1/status", (200, remote(1_000_000.0)))
    return ["ingest", str(folder)]


def _forget_withdrawn(daemon: StubDaemon, _: Path) -> list[str]:
    state = FileState(state="withdrawn", reason="gone", since="2026-11-28", until=None)
    file = entry(key="/d/a.md", attributes={"source": "/d/a.md", "file": {}}, file_state=state)
    page = EntryPage(entries=[file], next=None)
    daemon.answer("GET", "/v1/entries", (200, page))
    return ["ingest", "--forget-withdrawn"]


def _changes(seen: StubRequest) -> bool:
    """Return whether a request erases, quarantines or costs something."""
    asks_only = isinstance(seen.body, dict) and bool(seen.body.get("dry_run"))
    return seen.method == "DELETE" or (
        seen.path.startswith(("/v1/revocations", "/v1/reembed/")) and not asks_only
    )


@pytest.mark.parametrize("prepare", [_forget, _revoke, _undo, _reembed, _connect, _ingest, _forget_withdrawn])
def test_ctrl_c_at_a_prompt_changes_nothing_and_exits_130(
    prepare: Prepare,
    agentctx: Agentctx,
    daemon: StubDaemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    recent = ExportedEntry(entry=ENTRY, versions=[], chunks=[])
    monkeypatch.setattr(undo, "exported_entries", lambda *_: iter([recent]))
    args = prepare(daemon, home)
    before = sorted(home.rglob("*"))
    error = Terminal()
    user = Terminal()
    monkeypatch.setattr(user, "readline", _interrupt)
    monkeypatch.setattr(sys, "stdin", user)
    monkeypatch.setattr(sys, "stderr", error)
    assert agentctx(*args) == 130
    assert "Traceback" not in error.written()
    assert "[y/N" in error.written()
    assert [seen for seen in daemon.seen if _changes(seen)] == []
    assert sorted(home.rglob("*")) == before
