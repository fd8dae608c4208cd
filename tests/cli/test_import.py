import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from agentctx.cli.export_format import entry_line, header_line, read_entry
from agentctx.wire import ErrorBody, ErrorReply, ExportedEntry, SaveManyReply
from tests.client.stub_daemon import StubDaemon, entry, save_result

Agentctx = Callable[..., int]
EXPORT = "\n".join(
    [
        header_line(history=False, vectors=False),
        entry_line(ExportedEntry(entry=entry(), versions=[], chunks=[])),
        "",
    ]
)


def test_a_byte_order_mark_is_no_part_of_the_export(
    agentctx: Agentctx, daemon: StubDaemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answer("POST", "/v1/import", (200, SaveManyReply(results=[save_result()])))
    file = tmp_path / "marked.jsonl"
    file.write_text(EXPORT, encoding="utf-8-sig")
    assert agentctx("import", str(file), "--json") == 0
    assert json.loads(capsys.readouterr().out)["imported"] == 1


def test_an_empty_file_is_called_empty(
    agentctx: Agentctx, daemon: StubDaemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "empty.jsonl"
    file.touch()
    assert agentctx("import", str(file)) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: The export is empty."
    assert "`agentctx export`" in hint
    assert not daemon.seen


def test_what_the_daemon_advises_is_told(
    agentctx: Agentctx, daemon: StubDaemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = ErrorReply(error=ErrorBody(code="invalid_input", message="It is too old.", hint="Renew it."))
    daemon.answer("POST", "/v1/import", (200, asdict(SaveManyReply(results=[refused]))))
    file = tmp_path / "old.jsonl"
    file.write_text(EXPORT)
    assert agentctx("import", str(file), "--quiet") == 1
    assert capsys.readouterr().err == "error: line 2: It is too old.\nhint: Renew it.\n"


def test_bytes_that_are_no_utf8_are_refused_with_their_line(
    agentctx: Agentctx, daemon: StubDaemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_bytes(EXPORT.encode().replace(b'"content":"', b'"content":"\xff'))
    assert agentctx("import", str(file), "--quiet") == 1
    assert "line 2: it is no UTF-8" in capsys.readouterr().err
    assert not [request for request in daemon.seen if request.path == "/v1/import"]


def test_an_older_version_whose_time_was_over_is_no_reason_to_refuse_the_entry() -> None:
    old = entry(version=1, expires="2020-01-01T00:00:00.000Z")
    line = entry_line(ExportedEntry(entry=entry(version=2), versions=[old], chunks=[]))
    assert [version.expires for version in read_entry(line)] == [None, None]
