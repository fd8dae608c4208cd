from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.doctor.last_start import SLOW_START_MS, judge_start, last_start_check
from agentctx.doctor.runner import run_checks
from agentctx.host.start_record import RECORD_NAME, StartRecord, read_record, record_of
from agentctx.times import parse_time
from agentctx.wire import CheckStatus

STARTED = "2026-11-21T08:00:00.000Z"
NOW = parse_time(STARTED, now=0) + 1_000
RECORD = StartRecord(state="ready", version="1", pid=7, socket="/s", started=STARTED, ready=STARTED)


@pytest.mark.parametrize(
    ("changes", "is_running", "status", "said"),
    [
        ({}, True, "pass", "ready since"),
        ({}, False, "warn", "ended without stopping cleanly"),
        ({"state": "stopped", "ended": STARTED}, False, "pass", "stopped"),
        ({"state": "starting", "ready": None}, True, "pass", "starting since"),
        ({"state": "starting", "ready": None}, False, "warn", "never became ready"),
        (
            {"state": "failed", "ready": None, "code": "c", "message": "no disk"},
            False,
            "warn",
            "failed: no disk (c)",
        ),
        ({"state": "failed", "code": "c", "message": "a bug"}, False, "warn", "died: a bug (c)"),
    ],
)
def test_the_record_is_interpreted(
    changes: dict[str, Any], is_running: bool, status: CheckStatus, said: str
) -> None:
    finding = judge_start(replace(RECORD, **changes), is_running=is_running, now=NOW)
    assert finding.status == status
    assert said in finding.message
    assert bool(finding.hint) == (status == "warn")


def test_a_start_that_takes_too_long_is_warned_of() -> None:
    record = replace(RECORD, state="starting", ready=None)
    finding = judge_start(record, is_running=True, now=NOW + SLOW_START_MS)
    assert (finding.status, "kill 7" in finding.hint) == ("warn", True)


def test_the_logged_error_is_shown() -> None:
    record = replace(RECORD, logged=("warning space_not_ready: no model", "error x"))
    assert (
        judge_start(record, is_running=True, now=NOW).detail == "warning space_not_ready: no model; error x"
    )


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None
    record = replace(RECORD, logged=("warning a",))
    (tmp_path / RECORD_NAME).write_text(record.to_json(), encoding="utf-8")
    assert read_record(tmp_path) == record


def test_a_record_of_a_newer_version_is_read(tmp_path: Path) -> None:
    text = RECORD.to_json().replace("{", '{"new_field": 1,', 1)
    (tmp_path / RECORD_NAME).write_text(text, encoding="utf-8")
    assert read_record(tmp_path) == RECORD


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"state": "ready"}'])
async def test_an_invalid_record_is_a_warning(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD_NAME).write_text(text, encoding="utf-8")
    (result,) = await run_checks([last_start_check(tmp_path, is_running=False, now=NOW)])
    assert (result.status, "is not readable" in result.message) == ("warn", True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@given(st.dictionaries(st.sampled_from(list(StartRecord.__dataclass_fields__)), JSON))
def test_any_json_is_a_record_or_a_value_error(values: dict[str, Any]) -> None:
    try:
        record = record_of(values)
    except ValueError:
        return
    judge_start(record, is_running=False, now=NOW)
