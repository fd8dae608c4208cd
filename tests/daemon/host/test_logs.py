"""The content and format of the log."""

from __future__ import annotations

import json
import logging

import pytest
import structlog

from agentctx.config.schema import LogSettings
from agentctx.daemon.host.logs import configure_logging

pytestmark = pytest.mark.usefixtures("logging_as_before")


def test_every_event_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings())
    structlog.get_logger("agentctx.test").info("ready", pid=7)
    logging.getLogger("other").warning("from elsewhere\nin two lines")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["level"], line["logger"]) for line in lines] == [
        ("ready", "info", "agentctx.test"),
        ("from elsewhere\nin two lines", "warning", "other"),
    ]
    assert lines[0]["pid"] == 7
    assert lines[0]["timestamp"].endswith("Z")


def test_less_than_the_level_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings(level="error"))
    structlog.get_logger("agentctx.test").warning("quiet")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("format_", ["json", "console"])
def test_a_traceback_shows_no_local_values(format_: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings.model_validate({"format": format_}))
    secret = "x" + "ylophone"
    try:
        raise RuntimeError(f"failed with {len(secret)} letters")
    except RuntimeError:
        structlog.get_logger("agentctx.test").exception("daemon_died")
    logged = capsys.readouterr().err
    assert "failed with 9 letters" in logged
    assert "xylophone" not in logged


FORGED = "a\r\nERROR forged \x1b[31mred\x07 \x9b2J \u2028 \u202eabc"


def test_no_value_makes_a_line_or_moves_the_cursor_on_the_console(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(LogSettings(format="console"))
    structlog.get_logger("agentctx.test").info(f"event {FORGED}", name=FORGED, many=[FORGED], code=7)
    logging.getLogger("other").warning("said %s", FORGED)
    lines = capsys.readouterr().err.split("\n")
    assert len(lines) == 3
    plain = "".join(lines).replace("\x1b[0m", "")
    for colour in ("[1m", "[2m", "[31m\x1b[1m", "[32m", "[33m", "[34m", "[35m", "[36m", "[31m"):
        plain = plain.replace(f"\x1b{colour}", "")
    assert plain.isprintable()
    assert "ERROR forged \\x1b[31mred\\x07" in plain


def test_a_traceback_on_the_console_has_no_line_at_the_margin(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings(format="console"))
    try:
        raise ValueError(FORGED)
    except ValueError:
        structlog.get_logger("agentctx.test").exception("died")
    first, *rest = capsys.readouterr().err.rstrip("\n").split("\n")
    assert "died" in first
    assert rest
    assert not [line for line in rest if line and not line.startswith("    ")]
    assert "\x07" not in "".join(rest)
    assert "\r" not in "".join(rest)


def test_json_escapes_line_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings(format="json"))
    structlog.get_logger("agentctx.test").info(FORGED, name=FORGED)
    (line,) = capsys.readouterr().err.rstrip("\n").split("\n")
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["name"] == FORGED


def test_at_debug_libraries_stay_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings(level="debug"))
    logging.getLogger("aiosqlite").debug("executing 'a text'")
    structlog.get_logger("agentctx.test").debug("ours")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["ours"]
