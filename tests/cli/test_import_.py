import os
from pathlib import Path

import pytest

from agentctx import Client
from agentctx.cli import import_
from agentctx.cli.export_format import entry_line, header_line
from agentctx.cli.import_sending import ImportLine, ImportReport, batches, send
from agentctx.wire import ErrorBody, ErrorReply, ExportedEntry, ImportEntry, SaveManyReply
from tests.cli.conftest import Agentctx
from tests.client.stub_daemon import StubDaemon, entry, save_result

EXPORT = "\n".join(
    [
        header_line(history=False, vectors=False),
        entry_line(ExportedEntry(entry=entry(), versions=[], chunks=[])),
        "",
    ]
)


def test_versions_sent_alone_expire_with_their_entry(
    agentctx: Agentctx, daemon: StubDaemon, tmp_path: Path
) -> None:
    """A lone version is the last one of its request, so it carries the expiry of the entry."""
    until = "2099-01-01T00:00:00.000Z"
    versions = [entry(version=1, expires="2020-01-01T00:00:00.000Z"), entry(version=2, expires=until)]
    file = tmp_path / "large.jsonl"
    line = entry_line(ExportedEntry(entry=versions[1], versions=versions[:1], chunks=[]))
    file.write_text(f"{header_line(history=True, vectors=False)}\n{line}\n")
    too_large = (413, ErrorReply(error=ErrorBody(code="too_large", message="too large", hint="")))
    saved = (200, SaveManyReply(results=[save_result()]))
    daemon.answer("POST", "/v1/import", too_large, saved, saved)
    assert agentctx("import", str(file), "--quiet") == 0
    sent = [request.body["entries"] for request in daemon.seen if request.path == "/v1/import"]
    assert [[version["expires"] for version in versions] for versions in sent[1:]] == [[until], [until]]


def test_an_endless_or_huge_line_is_refused(
    agentctx: Agentctx, daemon: StubDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert agentctx("import", "/dev/zero") == 1
    assert agentctx.err.startswith("error: /dev/zero cannot be read: line 1 is longer than 65,536 bytes.")
    file = tmp_path / "huge.jsonl"
    file.write_text(EXPORT)
    monkeypatch.setattr(import_, "MAX_LINE_BYTES", 100)
    assert agentctx("import", str(file)) == 1
    assert "line 2 is longer than 100 bytes" in agentctx.err
    assert not [request for request in daemon.seen if request.path == "/v1/import"]


def test_a_pipe_that_nobody_writes_to_is_not_awaited_forever(
    agentctx: Agentctx, daemon: StubDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_, "PIPE_WAIT_S", 0.01)
    os.mkfifo(tmp_path / "pipe")
    assert agentctx("import", str(tmp_path / "pipe")) == 1
    assert "no program writes to this pipe" in agentctx.err
    assert not daemon.seen


def test_what_only_admins_may_trust_is_imported_as_external(
    daemon: StubDaemon,
) -> None:
    trusted = ImportLine("one", [import_entry("1")], "agent")
    lines = [trusted, ImportLine("two", [import_entry("2")], "external")]
    report = ImportReport(dry_run=False)
    denied = (403, ErrorReply(error=ErrorBody(code="access_denied", message="no", hint="")))
    saved = (200, SaveManyReply(results=[save_result()]))
    daemon.answer("POST", "/v1/import", denied, saved, saved)
    with Client(daemon.socket) as client:
        for batch in batches(lines):
            send(client, batch, report)
    sent = [(each.body["trust"], each.body["entries"][0]["id"]) for each in daemon.seen]
    assert sent == [("agent", "1"), ("external", "1"), ("external", "2")]
    assert (report.imported, report.lowered) == (2, 1)


def import_entry(name: str) -> ImportEntry:
    time = "2026-01-01T00:00:00.000Z"
    return ImportEntry(
        id=name,
        namespace="default",
        collection="knowledge",
        content="text",
        attributes={},
        created=time,
        updated=time,
    )


def test_a_kind_that_nobody_offers_is_answered_with_those_that_there_are(agentctx: Agentctx) -> None:
    assert agentctx("import", "--from", "absent") == 2
    assert "There is no importer for 'absent'." in agentctx.err
    assert "mem0, " in agentctx.err
    assert agentctx("import", "--from", "--json") == 0
    assert agentctx.json["rules"].startswith("CLAUDE.md")


def test_path_and_namespace_are_for_other_programs(agentctx: Agentctx, tmp_path: Path) -> None:
    assert agentctx("import", "a.jsonl", str(tmp_path)) == 2
    assert agentctx("import", "a.jsonl", "--namespace", "x") == 2
