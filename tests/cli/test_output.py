import os
from dataclasses import dataclass

import pytest

from agentctx.cli.output import paint, print_error, print_json, writes_unicode
from agentctx.errors import AgentctxError, NotFound
from tests.cli.terminal import Terminal


@pytest.mark.parametrize(
    ("env", "on_terminal", "is_colourful"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, False, False),
    ],
)
def test_colour_follows_terminal_and_environment(
    env: dict[str, str], on_terminal: bool, is_colourful: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    if on_terminal:
        monkeypatch.setattr("sys.stdout", Terminal())
    assert paint("x", "red", "bold") == ("\x1b[31;1mx\x1b[0m" if is_colourful else "x")


def test_json_is_ascii_where_stdout_is_not_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Word:
        text: str

    for encoding, written in (("latin-1", b"\\u65e5"), ("utf-8", "日".encode())):
        reading, writing = os.pipe()
        with open(writing, "w", encoding=encoding) as stdout, open(reading, "rb") as piped:  # noqa: PTH123 - a pipe has no path
            monkeypatch.setattr("sys.stdout", stdout)
            assert writes_unicode() == (encoding == "utf-8")
            print_json(Word("日"))
            stdout.close()
            assert written in piped.read()


def test_a_daemon_fault_is_reported_with_its_log_id(capsys: pytest.CaptureFixture[str]) -> None:
    error = AgentctxError("The daemon failed.")
    error.request_id = "4f1c"
    print_error(error)
    assert "request_id 4f1c" in capsys.readouterr().err
    print_error(NotFound("no such entry"))
    assert "request_id" not in capsys.readouterr().err
