from __future__ import annotations

from dataclasses import replace

import pytest

from agentctx.wire import EntryPage, EntryView, FileState, ForgetReply
from tests.cli.conftest import Agentctx
from tests.cli.terminal import on_a_terminal
from tests.client.stub_daemon import ID, StubDaemon, entry

SINCE, UNTIL = "2026-11-28T08:00:00.000Z", "2026-12-28T08:00:00.000Z"
WITHDRAWN = FileState(state="withdrawn", reason="gone", since=SINCE, until=UNTIL)
STALE = FileState(state="stale", reason="permission denied", since=SINCE, until=None)


def of_file(source: str, state: FileState | None, entry_id: str = ID) -> EntryView:
    view = entry(key=source, attributes={"source": source, "file": {"digest": "0" * 64}})
    return replace(view, id=entry_id, file_state=state)


@pytest.fixture
def marked(daemon: StubDaemon) -> StubDaemon:
    files = [of_file("/d/b.md", WITHDRAWN), of_file("/d/a.md", STALE, "2"), of_file("/dx", WITHDRAWN, "3")]
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=files, next=None)))
    daemon.answer("DELETE", f"/v1/entries/{ID}", (200, ForgetReply(id=ID, versions=1)))
    return daemon


def erased(daemon: StubDaemon) -> list[str]:
    return [seen.path for seen in daemon.seen if seen.method == "DELETE"]


@pytest.mark.parametrize(("answer", "count"), [("y\n", 1), ("n\n", 0)])
def test_a_terminal_is_asked(
    agentctx: Agentctx, marked: StubDaemon, monkeypatch: pytest.MonkeyPatch, answer: str, count: int
) -> None:
    err = on_a_terminal(monkeypatch, answer)
    agentctx("ingest", "--forget-withdrawn", "/d")
    assert "Erase the entries of 1 withdrawn file? [y/N]" in err.written()
    assert len(erased(marked)) == count
