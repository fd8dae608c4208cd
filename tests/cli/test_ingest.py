import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctx.cli.ingest_report import change_lines, summary_lines
from agentctx.ingest.plan import FileVerdict
from agentctx.ingest.report import Report
from agentctx.wire import EntryPage, ForgetReply, MarkFilesReply, SearchReply
from tests.cli.conftest import Agentctx
from tests.cli.terminal import on_a_terminal
from tests.cli.transcript import of_file, saved_all
from tests.client.stub_daemon import (
    ID,
    Reply,
    StubDaemon,
    StubRequest,
    queue_reply,
    status_reply,
)
from tests.ingest.test_report import unread


@pytest.fixture
def folder(tmp_path: Path, daemon: StubDaemon) -> Path:
    """Two files, and a daemon that knows a third, removed one."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text("text\n")
    os.utime(folder, ns=(1, 1))  # nothing is being changed
    known = of_file(str(folder / "gone.md"))
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[known], next=None)))
    daemon.answer("POST", "/v1/entries", saved_all)
    daemon.answer("POST", "/v1/file-states", (200, MarkFilesReply(entries=1)))
    daemon.answer("DELETE", f"/v1/entries/{ID}", (200, ForgetReply(id=ID, versions=1)))
    daemon.answer("GET", "/v1/status", (200, status_reply()))
    daemon.answer("GET", "/v1/queue", (200, queue_reply(0, 0)))
    daemon.answer("POST", "/v1/search", (200, SearchReply(results=[], degraded=None)))
    return folder


def sent(daemon: StubDaemon, method: str) -> list[Any]:
    return [seen for seen in daemon.seen if seen.method == method]


def test_one_json_document(agentctx: Agentctx, folder: Path) -> None:
    assert agentctx("ingest", "--json", str(folder)) == 0
    document = agentctx.json
    assert (document["counts"]["new"], document["withdrawn"]) == (
        2,
        [{"path": f"{folder}/gone.md", "reason": "gone"}],
    )


MARKED = {
    (): [{"entries": [ID], "state": "withdrawn", "reason": "gone"}],
    ("--keep-missing",): [{"entries": [ID], "state": "stale", "reason": "gone"}],
    ("--remove-missing",): [],
    ("--dry-run",): [],
}


@pytest.mark.parametrize("options", MARKED)
def test_options_decide_what_becomes_of_a_file_that_is_gone(
    agentctx: Agentctx,
    daemon: StubDaemon,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
) -> None:
    err = on_a_terminal(monkeypatch, "y\n")
    assert agentctx("ingest", "--quiet", *options, str(folder)) == 0
    assert "[y/N]" not in err.written()
    marks = [seen.body for seen in daemon.seen if seen.path == "/v1/file-states"]
    assert [mark for each in marks for mark in each["marks"]] == MARKED[options]
    assert len(sent(daemon, "DELETE")) == (1 if options == ("--remove-missing",) else 0)


def test_losing_the_daemon_midway_reports_progress(
    agentctx: Agentctx, daemon: StubDaemon, folder: Path
) -> None:
    for number in range(600):
        (folder / f"{number}.txt").write_text("text")

    def first_then_none(seen: StubRequest) -> Reply:
        daemon.dropping = 1_000
        return saved_all(seen)

    daemon.answer("POST", "/v1/entries", first_then_none)
    assert agentctx("ingest", str(folder)) == 3
    assert "note: 500 files were done before that; run the same command to resume" in agentctx.err
    assert "error: " in agentctx.err


def test_watch_without_its_package_says_how_to_install_it(
    agentctx: Agentctx, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert agentctx("ingest", "--watch", str(folder)) == 2
    assert "install watchfiles" in agentctx.err


def test_undecodable_names_are_accepted(
    agentctx: Agentctx, daemon: StubDaemon, tmp_path: Path, folder: Path
) -> None:
    file = folder / os.fsdecode(b"caf\xe9.md")
    file.write_text("text\n")
    assert agentctx("ingest", str(file)) == 0
    saves = sent(daemon, "POST")[0]
    assert saves.body["entries"][0]["source"] == f"{folder}/caf\\xe9.md"


def test_the_summary_has_a_line_for_each_outcome() -> None:
    report = Report(unchanged=120, entries=4, bytes=12_000, pending=0, buried=1)
    report.saved[FileVerdict.TOUCHED] += ["/d/a"]
    report.skip("/d/.env", "hidden")
    report.skip("/d/.x", "hidden")
    report.skip("/d/y", "ignored")
    report.removed.append(unread("/d/e", "gone"))
    assert summary_lines(report) == [
        "touched      1  the text is the same",
        "unchanged  120",
        "removed      1  1 gone",
        "skipped      3  2 hidden, 1 ignored",
        "entries      4  12.0 kB",
        "pending      0  1 buried",
    ]
    assert summary_lines(Report()) == ["nothing to do"]


def test_each_change_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()
    report.saved[FileVerdict.CHANGED] += ["/d/a"]
    report.removed.append(unread("/d/e", "gone"))
    report.skip("/d/.env", "hidden")
    assert change_lines(report, with_skipped=False) == ["changed    /d/a", "removed    /d/e  (gone)"]
