import os
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from agentctx.cli.ingest import chosen_policy
from agentctx.cli.ingest_report import change_lines, summary_lines
from agentctx.ingest.plan import FileVerdict
from agentctx.ingest.report import Report
from agentctx.ingest.unread import MissingPolicy
from agentctx.wire import EntryPage, ForgetReply, MarkFilesReply, SaveManyReply, SearchReply
from tests.cli.conftest import Agentctx
from tests.cli.terminal import on_a_terminal
from tests.client.stub_daemon import (
    ID,
    Reply,
    StubDaemon,
    StubRequest,
    entry,
    queue_reply,
    save_result,
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
    record = {
        "digest": "0" * 64,
        "size": 1,
        "modified": 2,
        "part": 1,
        "parts": 1,
        "unit": "line",
        "places": [[0, 1]],
    }
    source = str(folder / "gone.md")
    known = entry(key=source, attributes={"source": source, "tags": [], "category": "fact", "file": record})
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[known], next=None)))
    daemon.answer("POST", "/v1/entries", _saved)
    daemon.answer("POST", "/v1/file-states", (200, MarkFilesReply(entries=1)))
    daemon.answer("DELETE", f"/v1/entries/{ID}", (200, ForgetReply(id=ID, versions=1)))
    daemon.answer("GET", "/v1/status", (200, status_reply()))
    daemon.answer("GET", "/v1/queue", (200, queue_reply(0, 0)))
    daemon.answer("POST", "/v1/search", (200, SearchReply(results=[], degraded=None)))
    return folder


def _saved(seen: StubRequest) -> Reply:
    return 200, SaveManyReply(results=[save_result() for _ in seen.body["entries"]])


def sent(daemon: StubDaemon, method: str) -> list[Any]:
    return [seen for seen in daemon.seen if seen.method == method]


def test_stdout_has_only_the_summary(agentctx: Agentctx, folder: Path) -> None:
    assert agentctx("ingest", str(folder)) == 0
    assert (agentctx.out, agentctx.err) == (
        "new        2\nwithdrawn  1  1 gone\nentries    2  10 B\n",
        "note: withdrawn files are in no answer until they are back; see `agentctx ingest --status`\n",
    )


def test_options_apply_to_every_save_and_the_list(
    agentctx: Agentctx, daemon: StubDaemon, folder: Path
) -> None:
    options = [
        "--namespace",
        "team",
        "--tag",
        "t",
        "--tag",
        "u",
        "--tag",
        "t",
        "--category",
        "rule",
        "--agent",
        "me",
    ]
    assert agentctx("ingest", *options, str(folder)) == 0
    saves = sent(daemon, "POST")[0]
    for save in saves.body["entries"]:
        assert {
            name: save[name] for name in ("collection", "namespace", "tags", "category", "agent", "origin")
        } == {
            "collection": "knowledge",
            "namespace": "team",
            "tags": ["t", "u"],
            "category": "rule",
            "agent": "me",
            "origin": "document",
        }
    listed = sent(daemon, "GET")[0].query
    assert (listed["namespace"], listed["key_prefix"], listed["content"]) == (
        ["team"],
        [f"{folder}/"],
        ["false"],
    )


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


def test_a_dry_run_sends_nothing_and_lists_everything(
    agentctx: Agentctx, daemon: StubDaemon, folder: Path
) -> None:
    (folder / ".env").write_text("x")
    assert agentctx("ingest", "--dry-run", "--verbose", "--remove-missing", str(folder)) == 0
    assert {seen.path for seen in daemon.seen if seen.method != "GET"} == {"/v1/search"}
    assert agentctx.out.splitlines()[:4] == [
        f"new        {folder}/a.md",
        f"new        {folder}/b.md",
        f"removed    {folder}/gone.md  (gone)",
        f"skipped    {folder}/.env  (hidden)",
    ]


def test_a_refused_file_is_reported_and_exits_1(agentctx: Agentctx, daemon: StubDaemon, folder: Path) -> None:
    refusal = {"error": {"code": "invalid_input", "message": "Not that one.", "hint": "Another."}}
    daemon.answer("POST", "/v1/entries", (200, {"results": [refusal, _plain(save_result())]}))
    assert agentctx("ingest", str(folder)) == 1
    assert f"failed: {folder}/a.md: Not that one." in agentctx.err
    assert "note: 1 file: Another." in agentctx.err
    assert "new        1" in agentctx.out


def _plain(result: Any) -> dict[str, Any]:
    return {"id": result.id, "version": result.version, "changed": result.changed}


def test_a_missing_path_is_reported_and_the_others_ingested(agentctx: Agentctx, folder: Path) -> None:
    assert agentctx("ingest", str(folder / "a.md"), "/nonsense") == 1
    assert "failed: /nonsense: no such file or folder" in agentctx.err
    assert agentctx.out.startswith("new      1")


def test_losing_the_daemon_midway_reports_progress(
    agentctx: Agentctx, daemon: StubDaemon, folder: Path
) -> None:
    for number in range(600):
        (folder / f"{number}.txt").write_text("text")

    def first_then_none(seen: StubRequest) -> Reply:
        daemon.dropping = 1_000
        return _saved(seen)

    daemon.answer("POST", "/v1/entries", first_then_none)
    assert agentctx("ingest", str(folder)) == 3
    assert "note: 500 files were done before that; run the same command to resume" in agentctx.err
    assert "error: " in agentctx.err


def test_wait_reports_pending_embeddings(agentctx: Agentctx, folder: Path) -> None:
    assert agentctx("ingest", "--wait", "--keep-missing", str(folder)) == 0
    assert "pending  0" in agentctx.out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--max-size", "much"], "Invalid size"),
        (["--remove-missing", "--keep-missing"], "cannot be combined with --keep-missing"),
        (["--watch", "--dry-run"], "cannot be combined with --dry-run"),
        (["--watch", "--wait"], "cannot be combined with --dry-run"),
        (["--encoding", "klingon"], "Unknown encoding 'klingon'"),
        (["--encoding", "rot13"], "Unknown encoding 'rot13'"),
        (["--status", "--forget-withdrawn"], "cannot be combined with --forget-withdrawn"),
    ],
)
def test_usage(agentctx: Agentctx, folder: Path, options: list[str], problem: str) -> None:
    assert agentctx("ingest", *options, str(folder)) == 2
    assert problem in agentctx.err


def test_a_collection_without_files_is_refused(agentctx: Agentctx, daemon: StubDaemon, folder: Path) -> None:
    assert agentctx("ingest", "-c", "observation", str(folder)) == 2
    assert "does not accept files" in agentctx.err
    assert daemon.seen == []


def test_only_folders_are_watched(agentctx: Agentctx, folder: Path) -> None:
    assert agentctx("ingest", "--watch", str(folder / "a.md")) == 2
    assert "is not a folder" in agentctx.err


def test_watch_without_its_package_says_how_to_install_it(
    agentctx: Agentctx, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert agentctx("ingest", "--watch", str(folder)) == 2
    assert "install watchfiles" in agentctx.err


def test_a_file_name_cannot_control_the_terminal(agentctx: Agentctx, folder: Path) -> None:
    (folder / "\x1b[2J\u202e.md").write_text("text\n")
    assert agentctx("ingest", "--dry-run", str(folder)) == 0
    out = agentctx.out
    assert "\\u001b[2J\\u202e.md" in out
    assert "\x1b" not in out


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


def test_an_empty_path_is_not_the_current_folder(
    agentctx: Agentctx,
    daemon: StubDaemon,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    assert agentctx("ingest", "") == 2
    assert "the path is empty" in agentctx.err
    assert not daemon.seen


@pytest.mark.parametrize(
    ("remove", "keep", "policy"),
    [
        (False, False, MissingPolicy.WITHDRAW),
        (True, False, MissingPolicy.REMOVE),
        (False, True, MissingPolicy.KEEP),
    ],
)
def test_what_is_gone_is_withdrawn_unless_something_else_is_asked_for(
    remove: bool, keep: bool, policy: MissingPolicy
) -> None:
    assert chosen_policy(remove, keep) is policy


def test_missing_files_cannot_be_both_kept_and_removed() -> None:
    with pytest.raises(typer.BadParameter, match="--keep-missing"):
        chosen_policy(remove_missing=True, keep_missing=True)
