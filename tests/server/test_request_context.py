from __future__ import annotations

import pytest
import structlog
from structlog.testing import capture_logs

from agentctx import __version__
from agentctx.errors import NotFound
from agentctx.service.telemetry.metrics import REQUESTS
from agentctx.service.telemetry.recorder import Recorder
from tests.server.recording import RecordingService
from tests.server.running import parse_reply, recorded_app, running


@pytest.mark.parametrize("path", ["/healthz", "/v1/status", "/v1/entries?x=1", "/nowhere", "/v1/entries/%00"])
async def test_every_reply_has_the_version_and_its_own_id(path: str) -> None:
    async with running() as daemon:
        replies = [await daemon.http.get(path) for _ in range(2)]
    assert {reply.headers["x-agentctx-version"] for reply in replies} == {__version__}
    ids = {reply.headers["x-request-id"] for reply in replies}
    assert len(ids) == 2
    assert all(ids)


@pytest.mark.parametrize("path", ["/v1/entries?x=1", "/nowhere", "/v1/entries/%00", "/v1/search", "/readyz"])
async def test_every_error_has_the_request_id_in_its_body(path: str) -> None:
    async with running(RecordingService(reason="starting")) as daemon:
        reply = await daemon.http.get(path)
    assert reply.is_error
    assert reply.json()["error"]["request_id"] == reply.headers["x-request-id"]


async def test_errors_of_single_entries_and_of_refused_heads_have_the_request_id_too() -> None:
    async with running(RecordingService(outcomes=[NotFound("a"), NotFound("b")])) as daemon:
        entries = [{"collection": "knowledge", "key": "k", "content": "x"}] * 2
        many = await daemon.http.post("/v1/entries", json={"entries": entries})
        refused = parse_reply(await daemon.exchange(b"GET / HTTP/1.1\r\n\r\n"))
    ids = {result["error"]["request_id"] for result in many.json()["results"]}
    assert ids == {many.headers["x-request-id"]}
    assert refused.body["error"]["request_id"] == refused.headers["x-request-id"]


async def test_requests_are_counted_by_route_and_status_except_probes() -> None:
    recorder = Recorder()
    app = recorded_app(RecordingService(), telemetry=recorder)
    async with running(asgi=app) as daemon:
        for path in ("/healthz", "/readyz", "/metrics", "/v1/status", "/v1/entries/a", "/nowhere"):
            await daemon.http.get(path)
    assert recorder.samples()[REQUESTS] == {
        ("/v1/status", "GET", "2xx"): 1,
        ("/v1/entries/{entry_id}", "GET", "2xx"): 1,
        ("unknown", "GET", "4xx"): 1,
    }


async def test_a_crash_is_counted_as_a_server_error() -> None:
    recorder = Recorder()
    app = recorded_app(RecordingService(error=KeyError("secret")), telemetry=recorder)
    with capture_logs():
        async with running(asgi=app) as daemon:
            await daemon.http.get("/v1/status")
    assert recorder.samples()[REQUESTS] == {("/v1/status", "GET", "5xx"): 1}


async def test_a_valid_request_id_is_kept_and_bound_for_the_log() -> None:
    class LoggingService(RecordingService):
        def not_ready(self) -> str | None:
            return str(structlog.contextvars.get_contextvars()["request_id"])

    async with running(LoggingService()) as daemon:
        reply = await daemon.http.get("/readyz", headers={"X-Request-Id": "Trace-1.a_b"})
    assert reply.headers["x-request-id"] == "Trace-1.a_b"
    assert reply.json()["error"]["message"] == "Trace-1.a_b"


@pytest.mark.parametrize("request_id", ["", "a b", "a" * 65, "a;b", "é"])
async def test_an_invalid_request_id_is_replaced(request_id: str) -> None:
    async with running() as daemon:
        raw = await daemon.exchange(
            b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            b"X-Request-Id: " + request_id.encode() + b"\r\n\r\n"
        )
    assert len(parse_reply(raw).headers["x-request-id"]) == 16


async def test_a_crash_is_500_without_details_but_logged_with_them() -> None:
    async with running(RecordingService(error=KeyError("secret"))) as daemon:
        with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
            reply = await daemon.http.get("/v1/status", headers={"X-Request-Id": "r1"})
        assert await daemon.is_healthy()
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal")
    assert "secret" not in reply.text
    crash = next(entry for entry in logs if entry["event"] == "request_crashed")
    assert (crash["request_id"], crash["exc_info"]) == ("r1", True)


async def test_a_request_that_exhausts_the_memory_gets_a_typed_error() -> None:
    async with running(RecordingService(error=MemoryError())) as daemon:
        reply = await daemon.http.get("/v1/status")
        assert await daemon.is_healthy()
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "out_of_memory")
