"""The layout of the report and the exit code. The checks: tests/end_to_end/test_doctor.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from agentctx.cli import checkup as checkup_module
from agentctx.cli.app import run
from agentctx.cli.checkup import Checkup
from agentctx.cli.doctor import exit_code, report_lines
from agentctx.cli.layout import width
from agentctx.doctor.catalog import CHECK_IDS
from agentctx.doctor.check import report
from agentctx.doctor.daemon import RECORD_NAME
from agentctx.doctor.database_file import served_note
from agentctx.wire import CheckResult, DoctorReply, DoctorSummary
from tests.cli.terminal import Terminal
from tests.daemon.host.installed import FAILED, install

PASS = CheckResult(
    id="sqlite.version", group="program", status="pass", message="SQLite 3", detail="not shown"
)
SKIP = CheckResult(id="socket.file", group="socket", status="skip", message="none", hint="not shown")
WARN = CheckResult(
    id="queue.buried",
    group="queue",
    status="warn",
    message="2 jobs given up",
    detail="2 x too long",
    hint="Run `agentctx queue retry`.",
    fixable=True,
)
FAIL = CheckResult(id="embedding.key", group="embedding", status="fail", message="no key", hint="Set it.")

Answer = Callable[[DoctorReply], list[Checkup]]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Make the command report these results; return what it was asked to examine."""

    def answer(reply: DoctorReply) -> list[Checkup]:
        asked: list[Checkup] = []

        async def examine(checkup: Checkup) -> DoctorReply:
            asked.append(checkup)
            return reply

        monkeypatch.setattr(checkup_module, "examine", examine)
        return asked

    return answer


def test_the_report_is_grouped_aligned_and_short_for_passed_checks() -> None:
    assert report_lines(report([PASS, SKIP, WARN, FAIL]), None) == [
        "Program",
        "  ✓ sqlite.version  SQLite 3",
        "",
        "Socket",
        "  - socket.file     none",
        "",
        "Queue",
        "  ! queue.buried    2 jobs given up",
        "                    2 x too long",
        "                    Run `agentctx queue retry`.",
        "",
        "Embedding/RAG",
        "  ✗ embedding.key   no key",
        "                    Set it.",
        "",
        "1 passed, 1 warning, 1 failed, 1 skipped",
    ]


def test_a_repair_is_reported() -> None:
    fixed = CheckResult(
        id="queue.buried", group="queue", status="pass", message="none", fixed="put 2 jobs back"
    )
    assert report_lines(report([fixed]), None)[1:3] == [
        "  ✓ queue.buried  none",
        "                  fixed: put 2 jobs back",
    ]


def test_checks_skipped_for_one_reason_share_a_line() -> None:
    row = [
        CheckResult(id=name, group="queue", status="skip", message="nothing is saved yet")
        for name in ("queue.backlog", "queue.buried", "queue.leases")
    ]
    assert report_lines(report(row), None)[1:-2] == ["  - 3 checks       nothing is saved yet"]


@pytest.mark.parametrize("columns", [20, 60, 80])
def test_long_findings_are_wrapped_between_words(columns: int) -> None:
    long = CheckResult(
        id="queue.buried",
        group="queue",
        status="fail",
        message="word " * 40,
        detail="more " * 40,
        hint="do " * 40,
    )
    lines = report_lines(report([long]), columns)
    assert sum(line.count("word") for line in lines) == 40
    assert max(map(width, lines)) <= max(columns, 18 + 30)


def test_a_finding_cannot_control_the_terminal() -> None:
    evil = CheckResult(
        id="queue.buried", group="queue", status="fail", message="a\x1b[2Jb", detail="c\u202ed"
    )
    assert not {"\x1b", "\u202e"} & set("".join(report_lines(report([evil]), None)))


def test_without_unicode_the_marks_are_ascii() -> None:
    assert all(line.isascii() for line in report_lines(report([PASS, SKIP, WARN, FAIL]), None, unicode=False))


@pytest.mark.parametrize(
    ("warned", "failed", "strict", "code"),
    [(0, 0, True, 0), (1, 0, False, 0), (1, 0, True, 1), (0, 1, False, 1), (1, 1, True, 1)],
)
def test_exit_codes(warned: int, failed: int, strict: bool, code: int) -> None:
    summary = DoctorSummary(passed=1, warned=warned, failed=failed, skipped=0)
    assert exit_code(summary, strict=strict) == code


def test_the_options_are_passed_on(answered: Answer, capsys: pytest.CaptureFixture[str]) -> None:
    asked = answered(report([WARN]))
    arguments = [
        "--fix",
        "--offline",
        "--config",
        "c",
        "--data-dir",
        "d",
        "--only",
        "queue",
        "--skip",
        "queue.buried",
    ]
    assert run(["--socket", "s", "doctor", *arguments]) == 0
    assert run(["doctor", "--strict"]) == 1
    capsys.readouterr()
    assert asked == [
        Checkup(
            config=Path("c"),
            data_dir=Path("d"),
            socket=Path("s"),
            ids=("queue.backlog", "queue.leases"),
            fix=True,
            offline=True,
        ),
        Checkup(ids=CHECK_IDS),
    ]


def test_json_is_the_complete_reply(answered: Answer, capsys: pytest.CaptureFixture[str]) -> None:
    reply = report([WARN, FAIL])
    answered(reply)
    assert run(["doctor", "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out) == asdict(reply)
    assert captured.err == ""


def test_available_repairs_are_offered(answered: Answer, capsys: pytest.CaptureFixture[str]) -> None:
    answered(report([PASS, WARN]))
    assert run(["doctor"]) == 0
    assert "agentctx doctor --fix` can repair one of these" in capsys.readouterr().err
    assert run(["doctor", "--fix"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("option", ["--only", "--skip"])
def test_an_unknown_check_is_a_usage_error_listing_known_ones(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", option, "bogus"]) == 2
    error = capsys.readouterr().err
    assert "Unknown check 'bogus'" in error
    assert "embedding.canary" in error


def test_colour_is_for_terminals_only(answered: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(report([PASS, FAIL]))
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    run(["doctor"])
    assert "\x1b[31m✗\x1b[0m" in terminal.written()
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", plain := Terminal())
    run(["doctor"])
    assert "\x1b" not in plain.written()


def test_root_examines_the_service_of_the_machine_while_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, monkeypatch, says=FAILED)
    (tmp_path / "data" / RECORD_NAME).write_text(
        '{"state": "failed", "version": "1", "pid": 1, "socket": "/s", "served": true,'
        ' "started": "2026-11-27T12:54:50.000Z", "message": "agentctx.db is missing", "code": "x"}'
    )
    note = tmp_path / "data-served" / served_note(tmp_path / "data" / "agentctx.db").name
    note.parent.mkdir()
    note.touch()
    assert run(["doctor", "--json", "--only", "daemon", "--only", "files.database"]) == 1
    reply = json.loads(capsys.readouterr().out)
    checks = {each["id"]: each for each in reply["checks"]}
    assert checks["files.database"]["message"].startswith(f"{tmp_path}/data/agentctx.db is missing")
    answers = checks["daemon.answers"]
    assert (answers["status"], answers["message"][:33]) == ("fail", "agentctx.service: failed, exit 78")
    assert "sudo systemctl start agentctx" in answers["hint"]
    assert "agentctx serve" not in json.dumps(reply)
