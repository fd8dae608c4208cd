from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from agentctx.errors import Unavailable
from agentctx.service.guard_rules import AccessContext
from tests.server.recording import RecordingService
from tests.server.running import nothing, recorded_app, running
from tests.service.access.peers import PEERS, access_control, client_of

ROUTES = {
    ("get", "/v1/entries"),
    ("post", "/v1/entries"),
    ("get", "/v1/entries/{entry_id}"),
    ("patch", "/v1/entries/{entry_id}"),
    ("delete", "/v1/entries/{entry_id}"),
    ("get", "/v1/entries/{entry_id}/versions"),
    ("post", "/v1/learnings/{entry_id}/outcome"),
    ("post", "/v1/entries/{entry_id}/release"),
    ("post", "/v1/entries/{entry_id}/keep"),
    ("get", "/v1/review"),
    ("put", "/v1/review/mode"),
    ("post", "/v1/file-states"),
    ("post", "/v1/revocations"),
    ("delete", "/v1/revocations/{revocation_id}"),
    ("post", "/v1/search"),
    ("post", "/v1/context"),
    ("delete", "/v1/entries"),
    ("get", "/v1/namespaces"),
    ("post", "/v1/ui"),
    ("get", "/v1/injections"),
    ("get", "/v1/injections/{injection_id}"),
    ("post", "/v1/injections/explain"),
    ("get", "/v1/status"),
    ("get", "/v1/access"),
    ("get", "/v1/queue"),
    ("post", "/v1/queue/retry"),
    ("get", "/v1/reembed"),
    ("post", "/v1/reembed/{action}"),
    ("post", "/v1/queue/drain"),
    ("post", "/v1/backup"),
    ("post", "/v1/rewrite"),
    ("get", "/v1/audit"),
    ("post", "/v1/audit/verify"),
    ("get", "/v1/export"),
    ("post", "/v1/import"),
    ("get", "/v1/doctor"),
    ("post", "/v1/doctor/fix"),
}


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    return recorded_app(RecordingService()).openapi()


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method, path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_openapi_has_every_route(openapi: dict[str, Any]) -> None:
    assert set(operations(openapi)) == ROUTES
    assert openapi["openapi"].startswith("3.1")


def test_openapi_has_an_error_reply_for_every_error(openapi: dict[str, Any]) -> None:
    for operation in operations(openapi).values():
        errors = {status: reply for status, reply in operation["responses"].items() if status > "299"}
        assert {"400", "408", "413", "431", "500", "503", "default"} <= set(errors)
        assert "422" not in errors
        for reply in errors.values():
            schema = reply["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorReply"}
        assert operation["description"]


def test_openapi_has_strict_request_bodies(openapi: dict[str, Any]) -> None:
    bodies = {
        path: operation["requestBody"]["content"]["application/json"]["schema"]
        for (_, path), operation in operations(openapi).items()
        if "requestBody" in operation
    }
    assert bodies["/v1/search"] == {"$ref": "#/components/schemas/SearchRequest"}
    assert [option["$ref"] for option in bodies["/v1/entries"]["oneOf"]] == [
        "#/components/schemas/SaveRequest",
        "#/components/schemas/SaveManyRequest",
    ]
    assert openapi["components"]["schemas"]["SaveRequest"]["additionalProperties"] is False


async def test_openapi_is_served_but_no_docs_pages(openapi: dict[str, Any]) -> None:
    async with running() as daemon:
        assert (await daemon.http.get("/openapi.json")).json() == openapi
        assert (await daemon.http.get("/docs")).status_code == 404
        assert (await daemon.http.get("/redoc")).status_code == 404


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/entries/", "/v1//entries", "/v2/search", "/v1/entries/a%2Fb"]
)
async def test_an_unknown_path_is_404(path: str) -> None:
    async with running() as daemon:
        reply = await daemon.http.get(path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/entries", "DELETE, GET, POST"),
        ("POST", "/v1/entries/e1", "DELETE, GET, PATCH"),
        ("GET", "/v1/search", "POST"),
        ("DELETE", "/v1/status", "GET"),
        ("OPTIONS", "/v1/search", "POST"),
        ("TRACE", "/v1/queue", "GET"),
        ("GET", "/v1/injections/explain", "POST"),
        ("OPTIONS", "/v1/injections/explain", "POST"),
        ("OPTIONS", "/v1/injections/i1", "GET"),
        ("OPTIONS", "/v1/injections/explained", "GET"),
        ("OPTIONS", "/v1/entries", "DELETE, GET, POST"),
    ],
)
async def test_a_wrong_method_is_405_and_lists_the_allowed_ones(method: str, path: str, allowed: str) -> None:
    async with running() as daemon:
        reply: httpx.Response = await daemon.http.request(method, path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (405, "method_not_allowed")
    assert reply.headers["allow"] == allowed


async def test_healthz_answers_get_and_post_even_if_not_ready() -> None:
    async with running(RecordingService(reason="starting")) as daemon:
        replies = [await daemon.http.get("/healthz"), await daemon.http.post("/healthz", content=b"x")]
    assert [(reply.status_code, reply.json()) for reply in replies] == [(200, {"status": "ok"})] * 2


async def test_readyz_says_why_it_is_not_ready() -> None:
    async with running(RecordingService(reason="The database is being checked.")) as daemon:
        unready = await daemon.http.get("/readyz")
        daemon.service.reason = None
        ready = await daemon.http.get("/readyz")
    assert unready.status_code == 503
    assert unready.json()["error"]["code"] == "unavailable"
    assert unready.json()["error"]["message"] == "The database is being checked."
    assert ready.status_code == 200
    assert ready.json() == {"status": "ok", "degraded": [], "reasons": {}}


async def test_readyz_lists_degradations_without_failing() -> None:
    service = RecordingService(degradations={"embeddings": "the model has not answered yet"})
    async with running(service) as daemon:
        reply = await daemon.http.get("/readyz")
    assert reply.status_code == 200
    assert reply.json() == {
        "status": "ok",
        "degraded": ["embeddings"],
        "reasons": {"embeddings": "the model has not answered yet"},
    }


async def test_a_wrong_method_tells_a_stranger_nothing() -> None:
    context = AccessContext(access_control(), nothing, nothing)
    async with client_of(recorded_app(RecordingService(), context=context), PEERS["stranger"]) as http:
        reply = await http.delete("/healthz")
    assert (reply.status_code, reply.json()) == (405, {"status": "unavailable"})
    assert "allow" not in reply.headers


async def test_an_error_after_the_reply_has_begun_cuts_it() -> None:
    async def failing(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise Unavailable("The vendor is gone.")

    with capture_logs() as logs:
        async with running(asgi=recorded_app(RecordingService(), proxy=failing)) as daemon:
            reply = await daemon.exchange(b"GET /proxy/a HTTP/1.1\r\nHost: a\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 200 OK")
    assert reply.endswith(b"\r\n\r\nhalf")
    assert not logs
