"""Revocations and releases over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from agentctx.errors import InvalidInput, NotFound
from agentctx.wire import RevokeRequest
from tests.server.recording import RecordingService
from tests.server.running import running

SOURCE = {
    "namespace": "team",
    "agent": "bad",
    "session": "s",
    "principal": 1001,
    "origin": "document",
    "trust": "external",
    "source": "/docs/a",
    "since": "7d",
    "until": "2026-11-22T00:00:00Z",
}


async def test_every_criterion_of_a_revocation_is_passed_on() -> None:
    async with running() as daemon:
        reply = await daemon.http.post("/v1/revocations", json={**SOURCE, "dry_run": True, "forget": True})
    assert reply.status_code == 200
    assert reply.json() == {
        "revocation": 1,
        "entries": 2,
        "derived": 1,
        "held_before": 0,
        "criteria": {},
        "forget": False,
        "dry_run": False,
        "backups": 0,
        "backups_until": None,
    }
    wanted = RevokeRequest(**SOURCE, dry_run=True, forget=True)  # type: ignore[arg-type]  # mixed values
    assert daemon.service.calls == [("revoke", (wanted,), {})]


async def test_undo_and_release_return_the_number_released() -> None:
    async with running() as daemon:
        undone = await daemon.http.delete("/v1/revocations/7")
        released = await daemon.http.post("/v1/entries/e1/release")
    assert (undone.status_code, undone.json()["released"]) == (200, 3)
    assert (released.status_code, released.json()["released"]) == (200, 1)
    assert [call[:2] for call in daemon.service.calls] == [("undo_revocation", (7,)), ("release", ("e1",))]


@pytest.mark.parametrize(
    "body",
    [
        {"agent": 1},
        {"principal": "1001"},
        {"origin": "god"},
        {"trust": "most"},
        {"agents": ["a"]},
        {"agent": "a", "dry_run": "yes"},
        [],
    ],
)
async def test_an_invalid_revocation_never_reaches_the_service(body: Any) -> None:
    async with running() as daemon:
        reply = await daemon.http.post("/v1/revocations", json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_input")
    assert daemon.service.calls == []


@pytest.mark.parametrize("number", ["0", "-1", "one", str(2**63)])
async def test_an_invalid_revocation_number_is_refused(number: str) -> None:
    async with running() as daemon:
        reply = await daemon.http.delete(f"/v1/revocations/{number}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_input")
    assert daemon.service.calls == []


@pytest.mark.parametrize(
    ("method", "path", "error", "status"),
    [
        ("POST", "/v1/revocations", InvalidInput("This would revoke everything.", hint="Name one."), 400),
        ("DELETE", "/v1/revocations/7", NotFound("there is no revocation 7", hint="Look."), 404),
        ("POST", "/v1/entries/e1/release", NotFound("Entry 'e1' is not in quarantine.", hint="Look."), 404),
    ],
)
async def test_errors_are_returned_with_message_and_hint(
    method: str, path: str, error: InvalidInput, status: int
) -> None:
    async with running(RecordingService(error=error)) as daemon:
        reply = await daemon.http.request(method, path, json={} if path.endswith("revocations") else None)
    body = reply.json()["error"]
    assert (reply.status_code, body["code"], body["message"]) == (status, error.code, error.message)
    assert body["hint"] == error.hint
