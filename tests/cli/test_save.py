import io
import json
from collections.abc import Callable

import pytest

from tests.client.stub_daemon import ID, StubDaemon, save_result

Agentctx = Callable[..., int]

COMMON = [
    "--namespace",
    "team",
    "--origin",
    "user",
    "--ttl",
    "30d",
    "--agent",
    "planner",
    "--if-version",
    "0",
    "--wait",
]
COMMON_FIELDS = {
    "namespace": "team",
    "origin": "user",
    "ttl": "30d",
    "agent": "planner",
    "if_version": 0,
    "wait": "embedded",
}


@pytest.fixture(autouse=True)
def saves(daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/entries", (201, save_result()))


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        (
            [
                "knowledge",
                "--key",
                "k",
                "--category",
                "rule",
                "--tag",
                "a",
                "--tag",
                "b",
                "--cue",
                "When?",
                "--cue",
                "planning it",
                "--source",
                "s",
                "text",
            ],
            {
                "key": "k",
                "category": "rule",
                "tags": ["a", "b"],
                "cues": ["When?", "planning it"],
                "source": "s",
                "content": "text",
            },
        ),
        (
            ["observation", "--session", "s1", "--cue", "c", "--source", "s", "text"],
            {"session": "s1", "cues": ["c"], "source": "s", "content": "text"},
        ),
        (
            ["reflection", "--session", "s1", "--tag", "a", "--cue", "c", "text"],
            {"session": "s1", "tags": ["a"], "cues": ["c"], "content": "text"},
        ),
        (
            [
                "learning",
                "--trigger",
                "t",
                "--error-pattern",
                "p",
                "--diagnosis",
                "d",
                "--fix",
                "f",
                "--cue",
                "c",
            ],
            {"trigger": "t", "cues": ["c"], "error_pattern": "p", "diagnosis": "d", "fix": "f"},
        ),
    ],
)
def test_every_flag_arrives_as_its_field(
    agentctx: Agentctx, daemon: StubDaemon, args: list[str], fields: dict[str, object]
) -> None:
    daemon.answer("POST", "/v1/entries", (201, save_result(embedding="done")))
    assert agentctx("save", *args, *COMMON) == 0

    assert daemon.seen[0].body == {"collection": args[0], **fields, **COMMON_FIELDS}


def test_without_flags_the_defaults_hold(agentctx: Agentctx, daemon: StubDaemon) -> None:
    assert agentctx("save", "knowledge", "--key", "k", "text") == 0

    assert daemon.seen[0].body == {
        "collection": "knowledge",
        "key": "k",
        "category": "fact",
        "content": "text",
        "namespace": "default",
        "origin": "agent",
    }


def test_the_acknowledgement_is_one_line(
    agentctx: Agentctx, daemon: StubDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answer(
        "POST",
        "/v1/entries",
        (201, save_result(version=3)),
        (200, save_result(version=3, changed=False, embedding="done")),
    )
    agentctx("save", "knowledge", "--key", "k", "text")
    agentctx("save", "knowledge", "--key", "k", "text")

    assert capsys.readouterr().out.splitlines() == [
        f"saved  {ID}  version 3  embedding pending",
        f"unchanged  {ID}  version 3  embedding done",
    ]


def test_json_is_the_wires_answer_and_redaction_is_reported_beside_it(
    agentctx: Agentctx, daemon: StubDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answer("POST", "/v1/entries", (201, save_result(redacted=["aws_access_key"])))

    assert agentctx("save", "observation", "--session", "s", "text", "--json") == 0

    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "id": ID,
        "version": 1,
        "changed": True,
        "redacted": ["aws_access_key"],
        "flags": [],
        "quarantined": False,
        "embedding": "pending",
    }
    assert captured.err == "note: cut out before anything was stored: aws_access_key\n"


def stdin_of(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))


def test_a_dash_reads_stdin_without_the_break_that_echo_adds(
    agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin_of("première\n\nligne\n".encode(), monkeypatch)

    assert agentctx("save", "knowledge", "--key", "k", "-") == 0
    assert daemon.seen[0].body["content"] == "première\n\nligne"


def test_stdin_that_is_not_utf_8_is_refused(
    agentctx: Agentctx,
    daemon: StubDaemon,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stdin_of(b"caf\xe9", monkeypatch)

    assert agentctx("save", "knowledge", "--key", "k", "-") == 2
    assert "not UTF-8 (byte 3)" in capsys.readouterr().err
    assert daemon.seen == []


def test_an_argument_that_is_not_utf_8_is_refused(
    agentctx: Agentctx, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agentctx("save", "knowledge", "--key", "k", "caf\udce9") == 2
    assert "lone surrogate at position" in capsys.readouterr().err


def test_a_dropped_connection_is_repeated_without_a_word(
    agentctx: Agentctx, daemon: StubDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.dropping = 1

    assert agentctx("save", "knowledge", "--key", "k", "text") == 0

    first, second = (seen.headers["idempotency-key"] for seen in daemon.seen)
    assert first == second
    assert capsys.readouterr().err == ""
