from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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


def test_the_status_lists_what_is_marked_below_the_path(agentctx: Agentctx, marked: StubDaemon) -> None:
    assert agentctx("ingest", "--status", "--namespace", "team", "/d") == 0
    assert agentctx.out.splitlines() == [
        f"stale      /d/a.md  permission denied  {SINCE}",
        f"withdrawn  /d/b.md  gone               {SINCE}  until {UNTIL}",
    ]
    query = marked.seen[-1].query
    assert (query["namespace"], query["key_prefix"], query["marked"]) == (["team"], ["/d"], ["true"])


def test_the_status_as_json_and_of_everything(agentctx: Agentctx, marked: StubDaemon) -> None:
    assert agentctx("ingest", "--status", "--json") == 0
    assert [each["file"] for each in agentctx.json["files"]] == ["/d/a.md", "/d/b.md", "/dx"]
    assert agentctx.json["files"][1] == {
        "file": "/d/b.md",
        "state": "withdrawn",
        "reason": "gone",
        "since": SINCE,
        "until": UNTIL,
        "entries": [ID],
    }


def test_nothing_marked(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[], next=None)))
    assert agentctx("ingest", "--status") == 0
    assert agentctx.out == "every file was seen and says what its entries say\n"


def test_only_withdrawn_files_are_forgotten_and_only_with_consent(
    agentctx: Agentctx, marked: StubDaemon, tmp_path: Path
) -> None:
    assert agentctx("ingest", "--forget-withdrawn", "/d") == 2
    assert "needs a confirmation" in agentctx.err
    assert agentctx("ingest", "--forget-withdrawn", "--dry-run", "/d") == 0
    assert erased(marked) == []
    assert agentctx("ingest", "--forget-withdrawn", "--yes", "/d") == 0
    assert erased(marked) == [f"/v1/entries/{ID}"]
    assert "1 file forgotten" in agentctx.err


@pytest.mark.parametrize(("answer", "count"), [("y\n", 1), ("n\n", 0)])
def test_a_terminal_is_asked(
    agentctx: Agentctx, marked: StubDaemon, monkeypatch: pytest.MonkeyPatch, answer: str, count: int
) -> None:
    err = on_a_terminal(monkeypatch, answer)
    agentctx("ingest", "--forget-withdrawn", "/d")
    assert "Erase the entries of 1 withdrawn file? [y/N]" in err.written()
    assert len(erased(marked)) == count
