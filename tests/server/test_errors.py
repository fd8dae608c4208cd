from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from agentctx.errors import AgentctxError, NotFound, StorageFailed
from agentctx.server.errors import STATUS, error_json, error_response


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


def test_only_faults_of_the_daemon_are_logged() -> None:
    with capture_logs() as logs:
        error_response(NotFound("a"))
        error_response(StorageFailed("b"))
    assert [(entry["log_level"], entry["code"]) for entry in logs] == [("error", "storage_failed")]
