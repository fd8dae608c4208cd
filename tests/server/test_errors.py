from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from agentctx.errors import AgentctxError, NotFound, StorageCorrupt, StorageFailed
from agentctx.server import errors
from agentctx.server.errors import FAULT_INTERVAL_S, STATUS, FaultLog, error_json, error_response


def _all_errors(kind: type[AgentctxError] = AgentctxError) -> Iterator[type[AgentctxError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _all_errors(child)


@pytest.mark.parametrize("kind", list(_all_errors()))
def test_every_code_has_a_status(kind: type[AgentctxError]) -> None:
    assert 400 <= STATUS[kind.code] < 600


def test_the_body_has_code_message_hint_and_request_id() -> None:
    body = error_json(NotFound("No é.", hint="Look."), "r1").decode()
    assert body == (
        '{"error": {"code": "not_found", "message": "No é.", "hint": "Look.", "request_id": "r1"}}'
    )


def test_only_faults_of_the_daemon_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_outages", FaultLog())
    with capture_logs() as logs:
        error_response(NotFound("a"))
        error_response(StorageFailed("b"))
        error_response(StorageCorrupt("c"))
    assert [(entry["log_level"], entry["code"]) for entry in logs] == [
        ("error", "storage_failed"),
        ("error", "storage_corrupt"),
    ]


def test_an_outage_is_logged_once_a_minute_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(errors, "_outages", FaultLog(lambda: now[0]))
    with capture_logs() as logs:
        for second in range(0, 90, 3):
            now[0] = second
            error_response(StorageFailed("The server does not answer."))
    assert [entry.get("not_logged_before") for entry in logs] == [None, 19]
    assert not any("exc_info" in entry for entry in logs)


def test_the_first_of_a_kind_and_one_a_minute_are_due_with_the_number_of_the_others() -> None:
    now = [100.0]
    log = FaultLog(lambda: now[0])
    assert log.due("a") == 0
    assert [log.due("a") for _ in range(3)] == [None] * 3
    assert log.due("b") == 0
    now[0] += FAULT_INTERVAL_S
    assert log.due("a") == 3
    assert log.due("a") is None
    now[0] += 10 * FAULT_INTERVAL_S
    assert [log.due("a"), log.due("b")] == [1, 0]
