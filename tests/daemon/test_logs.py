"""What is logged, and how."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from agentctx.config.schema import LogSettings
from agentctx.daemon.logs import configure_logging


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


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
