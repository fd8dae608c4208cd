"""Every route for every role: what is not granted is refused and has no effect."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, cast

import httpx
import pytest

from agentctx.llm.proxy.access import NamespaceAccess
from agentctx.server.app import Application
from agentctx.server.gate import RouteWithoutPolicy
from agentctx.server.openapi import POLICY_FIELD
from agentctx.service.access.policy import PATHS
from agentctx.service.guard_rules import AccessContext
from tests.server.recording import INJECTION, RecordingService
from tests.server.running import ForwardingService, recorded_app
from tests.service.access.peers import PEERS, access_control, client_of
from tests.service.access.requests import ENTRY, NAMESPACE, OPERATIONS, RECEIPT, Request

READ = {"anyone", "member", "namespace read"}
WRITE = READ | {"namespace write"}
ALL = WRITE | {"daemon admin", "metrics"}
MAY = {
    "owner": ALL,
    "root": ALL,
    "admin": ALL,
    "reader": READ,
    "writer": WRITE,
    "namespace admin": WRITE,
    "reader by group": READ,
    "outsider": {"anyone", "member"},
    "monitor": {"anyone", "metrics"},
    "stranger": {"anyone"},
    "nobody": {"anyone"},
    "no account": {"anyone"},
}
STRANGERS = [role for role, allowed in MAY.items() if allowed <= {"anyone", "metrics"}]
READING_RECEIPTS = ("injection", "injections")
"""The receipt names its owner, so it is read before it is refused."""


@dataclass(frozen=True)
class Operation:
    name: str
    method: str
    path: str
    policy: str


async def vendor(scope: Any, receive: Any, send: Any) -> None:
    """Stands in for the proxy."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


@functools.cache
def app() -> tuple[Application, ForwardingService]:
    access, service = access_control(), ForwardingService()

    async def namespace_of(entry_id: str) -> str | None:
        return NAMESPACE if entry_id == ENTRY else None

    async def require(peer: Any, namespace: str) -> None:
        await access.require(peer, namespace, PATHS["/proxy"].right)

    async def receipt(injection_id: str) -> Any:
        return INJECTION if injection_id == RECEIPT else None

    proxy = NamespaceAccess(vendor, require=require, default="default")
    return recorded_app(service, context=AccessContext(access, namespace_of, receipt), proxy=proxy), service


@functools.cache
def operations() -> list[Operation]:
    return [
        Operation(operation["operationId"], method.upper(), path, operation[POLICY_FIELD])
        for path, methods in app()[0].openapi()["paths"].items()
        for method, operation in methods.items()
    ]


async def ask(role: str, operation: Operation, request: Request) -> tuple[httpx.Response, RecordingService]:
    asgi, forwarding = app()
    forwarding.target = service = RecordingService()
    async with client_of(asgi, PEERS[role]) as client:
        reply = await client.request(
            operation.method,
            operation.path.format(**request.path),
            params=request.query,
            json=request.body,
        )
    return reply, service


def test_every_route_of_openapi_is_in_the_matrix() -> None:
    assert {operation.name for operation in operations()} == set(OPERATIONS)


@pytest.mark.parametrize("role", MAY)
async def test_a_role_can_do_only_what_is_granted(role: str) -> None:
    problems = {each.name: await problem(role, each, OPERATIONS[each.name]) for each in operations()}
    assert {name: what for name, what in problems.items() if what} == {}


async def problem(role: str, operation: Operation, request: Request) -> str | None:
    """Return what is wrong with a role's answer; None if it is as granted."""
    reply, service = await ask(role, operation, request)
    if operation.policy not in MAY[role]:
        return problem_of_refusal(reply, service, operation, request, role)
    if operation.name == "injection" and role.startswith(("reader", "writer")):
        return None if reply.status_code == 404 else "it shows a receipt of somebody else"
    if not reply.is_success:
        return reply.text
    return None if service.peers[-1:] == [PEERS[role]] else f"it was done for {service.peers}"


def problem_of_refusal(
    reply: httpx.Response, service: RecordingService, operation: Operation, request: Request, role: str
) -> str | None:
    """A stranger learns nothing else; an unreadable id is reported as not found."""
    may_read = "namespace read" in MAY[role]
    is_hidden = (
        request.by_id and operation.policy.startswith("namespace") and not may_read and role not in STRANGERS
    )
    expected = (404, "not_found") if is_hidden else (403, "access_denied")
    if not reply.is_error or (reply.status_code, reply.json()["error"]["code"]) != expected:
        return f"{reply.status_code} {reply.text}"
    done = [call for call in service.calls if call[0] not in READING_RECEIPTS]
    return f"it did {done}" if done else None


@pytest.mark.parametrize("role", MAY)
async def test_plain_routes_and_unknown_paths(role: str) -> None:
    asgi, forwarding = app()
    forwarding.target = RecordingService(degradations={"embeddings": "/home/owner/model is missing"})
    async with client_of(asgi, PEERS[role]) as client:
        for path in [*PATHS, "/nothing/here", "/v1/entries/e1/nothing", "/docs"]:
            reply = await client.get("/proxy/openai/v1/models" if path == "/proxy" else path)
            policy = str(PATHS.get(path, "member"))
            if policy not in MAY[role]:
                assert (reply.status_code, reply.json()["error"]["code"]) == (403, "access_denied"), path
            else:
                served = 405 if path == "/mcp" else 200  # it takes POST alone
                assert reply.status_code == (served if path in PATHS else 404), path


@pytest.mark.parametrize("reason", [None, "reading /home/owner/agentctx.db, 7 of 9 tables"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_say_up_or_down_and_nothing_else(path: str, reason: str | None) -> None:
    asgi, forwarding = app()
    forwarding.target = RecordingService(reason=reason, degradations={"embeddings": "/home/owner is gone"})
    is_up = reason is None or path == "/healthz"
    for role in (role for role in MAY if MAY[role] != ALL):
        async with client_of(asgi, PEERS[role]) as client:
            reply = await client.get(path)
        assert reply.status_code == (200 if is_up else 503), role
        assert reply.json() == {"status": "ok" if is_up else "unavailable"}
        assert set(reply.headers) == {"content-type", "content-length", "x-request-id"}


async def test_probes_say_everything_to_an_admin() -> None:
    asgi, forwarding = app()
    forwarding.target = RecordingService(degradations={"embeddings": "the model is missing"})
    async with client_of(asgi, PEERS["admin"]) as client:
        reply = await client.get("/readyz")
    assert reply.json()["reasons"] == {"embeddings": "the model is missing"}
    assert "x-agentctx-version" in reply.headers


@pytest.mark.parametrize("role", STRANGERS)
@pytest.mark.parametrize("path", ["/v1/status", "/openapi.json", "/v1/entries/e1", "/nothing", "/proxy/x"])
async def test_a_stranger_learns_no_version_and_no_path(role: str, path: str) -> None:
    asgi, forwarding = app()
    forwarding.target = RecordingService()
    async with client_of(asgi, PEERS[role]) as client:
        replies = [await client.get(path), await client.post("/nothing/else", content=b"{")]
    messages = {reply.json()["error"]["message"] for reply in replies}
    assert messages == {"Permission denied: you have no grant on this daemon."}
    assert all("x-agentctx-version" not in reply.headers for reply in replies)


async def test_who_the_kernel_does_not_name_is_a_stranger() -> None:
    asgi, forwarding = app()
    forwarding.target = RecordingService()
    async with client_of(asgi, None) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/v1/status")).status_code == 403
        assert (await client.get("/proxy/openai/v1/models")).status_code == 403


@pytest.mark.parametrize("name", ["X-Agentctx-Uid", "X-Forwarded-User", "Authorization", "X-Agentctx-Agent"])
async def test_no_header_changes_who_asks(name: str) -> None:
    asgi, forwarding = app()
    forwarding.target = service = RecordingService()
    async with client_of(asgi, PEERS["stranger"]) as client:
        for value in ("0", "root", "Bearer root", "Basic cm9vdDo="):
            assert (await client.get("/v1/entries", headers={name: value})).status_code == 403
    assert service.calls == []


async def test_one_foreign_entry_refuses_the_whole_save() -> None:
    asgi, forwarding = app()
    forwarding.target = service = RecordingService()
    mine = {"collection": "knowledge", "content": "a"}
    async with client_of(asgi, PEERS["writer"]) as client:
        reply = await client.post("/v1/entries", json={"entries": [mine, {**mine, "namespace": "other"}]})
    assert reply.status_code == 403
    assert "'other'" in reply.json()["error"]["message"]
    assert service.calls == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 200),
        ([("X-Agentctx-Namespace", "default")], 200),
        ([("X-Agentctx-Namespace", "other")], 403),
        ([("X-Agentctx-Namespace", "default, other")], 403),
        ([("X-Agentctx-Namespace", "default,default")], 200),
        ([("X-Agentctx-Namespace", " , ")], 200),
        # Which of two counts is not ours to guess.
        ([("X-Agentctx-Namespace", "default"), ("X-Agentctx-Namespace", "other")], 400),
        ([("X-Agentctx-Namespace", "default"), ("X-Agentctx-Namespace", "")], 400),
    ],
)
async def test_the_proxy_takes_calls_for_granted_namespaces(
    headers: list[tuple[str, str]], status: int
) -> None:
    async with client_of(app()[0], PEERS["reader"]) as client:
        assert (await client.get("/proxy/openai/v1/models", headers=headers)).status_code == status
    async with client_of(app()[0], PEERS["outsider"]) as client:
        without = await client.get("/proxy/openai/v1/models")
        other = await client.get("/proxy/openai/v1/models", headers={"X-Agentctx-Namespace": "other"})
    assert (without.status_code, other.status_code) == (403, 200)


def test_a_route_without_a_policy_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(cast("dict[str, Any]", PATHS), "/metrics")
    with pytest.raises(RouteWithoutPolicy, match="'/metrics' has no policy") as caught:
        recorded_app(RecordingService())
    assert "agentctx/service/access/policy.py" in caught.value.hint
