"""MCP over HTTP, on the socket and on the port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from agentctx.agents.mcp.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    MAX_BATCH,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)
from agentctx.server.mcp import McpEndpoint
from tests.llm.proxy.running_proxy import RunningProxy, running_proxy

META: Final = "io.modelcontextprotocol/"
MODERN: Final = {
    f"{META}protocolVersion": "2026-07-28",
    f"{META}clientInfo": {"name": "t", "version": "1"},
    f"{META}clientCapabilities": {},
}


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[RunningProxy]:
    async with running_proxy(
        tmp_path, saved="", embedding={"provider": "none"}, proxy={"tcp_namespaces": ["default", "team"]}
    ) as running:
        yield running


async def ask(client: httpx.AsyncClient, method: str, headers: Any = None, **params: Any) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await client.post(_root(client) + "/mcp", json=message, headers=headers)


async def call(
    client: httpx.AsyncClient, tool: str, headers: Any = None, **arguments: Any
) -> tuple[str, bool]:
    """Return the text of a tool's result, and whether it failed."""
    reply = await ask(client, "tools/call", headers, name=tool, arguments=arguments)
    result = reply.json()["result"]
    return result["content"][0]["text"], result["isError"]


def _root(client: httpx.AsyncClient) -> str:
    return str(client.base_url).removesuffix("/").removesuffix("/proxy")


async def test_an_entry_saved_over_the_port_is_found_over_the_socket(daemon: RunningProxy) -> None:
    async with daemon.over_tcp() as port, daemon.over_socket() as socket:
        hello = (await ask(port, "initialize", protocolVersion="2025-06-18")).json()["result"]
        assert (hello["protocolVersion"], hello["serverInfo"]["name"]) == ("2025-06-18", "agentctx")
        text, failed = await call(port, "save", content="Deploys happen on Tuesdays.", key="deploys")
        assert (failed, text.startswith("Saved in default as")) == (False, True)
        assert "Deploys happen on Tuesdays." in (await call(socket, "search", query="deploys"))[0]


async def test_the_token_is_required_and_may_be_in_the_path(daemon: RunningProxy) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{daemon.port}", trust_env=False) as anyone:
        assert (await anyone.post("/mcp", json=ping)).status_code == 403
        assert (await anyone.post("/t/wrong/mcp", json=ping)).status_code == 403
        assert (await anyone.post(f"/t/{daemon.token}/mcp", json=ping)).json()["result"] == {}
        bearer = {"Authorization": f"Bearer {daemon.token}"}
        assert (await anyone.post("/mcp", json=ping, headers=bearer)).status_code == 200
        page = {**bearer, "Origin": "https://evil.example"}
        assert (await anyone.post("/mcp", json=ping, headers=page)).status_code == 403


async def test_a_call_uses_the_namespace_of_its_header(daemon: RunningProxy) -> None:
    team = {"X-Agentctx-Namespace": "team"}
    async with daemon.over_tcp() as port:
        await call(port, "save", team, content="The team deploys on Mondays.", key="deploys")
        assert "Nothing was found." in (await call(port, "search", query="deploys"))[0]
        found, _ = await call(port, "search", team, query="deploys")
        entry = json.loads(found.splitlines()[1])["id"]
        text, failed = await call(port, "forget", id=entry)
        assert (failed, text) == (True, "This project has no such entry. Use an id from search.")
        assert (await call(port, "forget", team, id=entry))[0].startswith("Forgotten")
        reply = await ask(port, "ping", {"X-Agentctx-Namespace": "secret"})
        assert reply.status_code == 403


async def test_an_error_of_the_daemon_becomes_a_failed_tool_result(daemon: RunningProxy) -> None:
    async with daemon.over_tcp() as port:
        text, failed = await call(port, "save", content="x" * 300_000)
        assert (failed, "262144" in text.replace(",", "")) == (True, True)
        text, failed = await call(port, "forget", id="nothing")
        assert (failed, bool(text)) == (True, True)


FORMS: Final = {**MODERN, f"{META}clientCapabilities": {"elicitation": {}}}


async def form_call(client: httpx.AsyncClient, tool: str, *, meta: Any = FORMS, **repeated: Any) -> Any:
    """Return the result of a stateless call: the text of a tool, or the members that ask for an answer."""
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
    params = {"name": tool, "arguments": {}, "_meta": meta, **repeated}
    result = (await ask(client, "tools/call", headers, **params)).json()["result"]
    return result if result["resultType"] == "input_required" else result["content"][0]["text"]


def accepted(question: Any, decision: str) -> dict[str, Any]:
    answer = {"action": "accept", "content": {"decision": decision}}
    return {"requestState": question["requestState"], "inputResponses": {"answer": answer}}


async def test_a_stateless_client_answers_by_repeating_the_call(daemon: RunningProxy) -> None:
    entry = (await daemon.memory.save("knowledge", key="deploys", content="Deploys happen on Tuesdays.")).id
    forget: dict[str, Any] = {"arguments": {"id": entry}}
    async with daemon.over_tcp() as port:
        asked = await form_call(port, "forget", **forget)
        assert "Deploys happen on Tuesdays." in asked["inputRequests"]["answer"]["params"]["message"]
        for forged in (
            accepted(asked, "forget") | {"requestState": "0" * 64 + "[null, null]"},
            accepted(asked, "forget") | {"requestState": None},
            accepted(asked, "forget") | {"inputResponses": {"another": {"action": "accept"}}},
        ):
            assert "inputRequests" in await form_call(port, "forget", **forget, **forged)
        told = await form_call(port, "forget", **forget, **accepted(asked, "keep"))
        assert told.startswith("Nothing was changed. The user refused.")

        await daemon.memory.edit(entry, content="Deploys happen on Mondays.")
        again = await form_call(port, "forget", **forget, **accepted(asked, "forget"))
        assert "Deploys happen on Mondays." in again["inputRequests"]["answer"]["params"]["message"]
        assert (
            await form_call(port, "forget", **forget, **accepted(again, "forget")) == f"Forgotten: {entry}."
        )


async def test_a_person_reviews_over_http_and_nobody_else_can(daemon: RunningProxy) -> None:
    captured: dict[str, Any] = {"session": "s", "agent": "a", "origin": "capture", "remember": "review"}
    ids = [(await daemon.memory.save("observation", content=f"Whale {n}.", **captured)).id for n in range(2)]
    body = {"way": "elicitation", "version": 1}
    async with daemon.over_tcp() as port, daemon.over_socket() as socket:
        root = _root(socket)
        assert (await socket.post(f"{root}/v1/entries/{ids[0]}/keep", json=body)).status_code == 403
        told = await form_call(port, "review")
        for decision in ("keep", "stop"):
            told = await form_call(port, "review", **accepted(told, decision))
        assert told == "The user decided: 1 kept. The user stopped the review. Still waiting: 1."
        waiting = await daemon.memory.list(waiting=True)
        assert [each.id for each in waiting.entries] == ids[:1]
        reply = await ask(port, "tools/call", name="review", arguments={})  # a handshake has no way back
        assert "Unknown tool" in reply.json()["error"]["message"]


async def test_stateless_requests_need_matching_headers(daemon: RunningProxy) -> None:
    right = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
    cases: list[tuple[dict[str, str], dict[str, Any], int, int | None]] = [
        (right, MODERN, 200, None),
        ({**right, "Mcp-Method": "ping"}, MODERN, 400, HEADER_MISMATCH),
        ({**right, "MCP-Protocol-Version": "2025-06-18"}, MODERN, 400, HEADER_MISMATCH),
        ({"Mcp-Method": "tools/list"}, MODERN, 400, HEADER_MISMATCH),
        (right, {}, 400, INVALID_PARAMS),
        (right, {f"{META}protocolVersion": "2026-07-28"}, 400, INVALID_PARAMS),
        ({"MCP-Protocol-Version": "1999-01-01"}, {}, 400, HEADER_MISMATCH),
    ]
    async with daemon.over_tcp() as port:
        for headers, meta, status, code in cases:
            reply = await ask(port, "tools/list", headers, _meta=meta)
            found = reply.json().get("error", {}).get("code")
            assert (reply.status_code, found) == (status, code), (headers, meta)
        gone = await ask(port, "ping", {**right, "Mcp-Method": "ping"}, _meta=MODERN)
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, METHOD_NOT_FOUND)


async def test_invalid_messages_notifications_and_batches(daemon: RunningProxy) -> None:
    async with daemon.over_tcp() as port:
        url = _root(port) + "/mcp"
        reply = await port.post(url, content=b"{")
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, PARSE_ERROR)
        assert (await port.post(url, json=[])).status_code == 400
        ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
        assert len((await port.post(url, json=[ping] * MAX_BATCH)).json()) == MAX_BATCH
        reply = await port.post(url, json=[ping] * (MAX_BATCH + 1))
        assert (reply.status_code, str(MAX_BATCH) in reply.json()["error"]["message"]) == (400, True)
        assert (await port.get(url)).status_code == 405
        notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        reply = await port.post(url, json=notice)
        assert (reply.status_code, reply.content) == (202, b"")
        batch = await port.post(url, json=[notice, {"jsonrpc": "2.0", "id": 7, "method": "ping"}])
        assert [each["id"] for each in batch.json()] == [7]


async def test_a_subscription_is_acknowledged_and_stays_open(daemon: RunningProxy) -> None:
    message = {"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": {}}
    async with (
        daemon.over_tcp() as port,
        port.stream("POST", _root(port) + "/mcp", json=message) as reply,
    ):
        assert reply.headers["content-type"] == "text/event-stream"
        first = await anext(reply.aiter_lines())
        assert json.loads(first.removeprefix("data: "))["method"].endswith("acknowledged")


async def test_a_tool_call_times_out_when_the_api_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctx.server.mcp.TIMEOUT_S", 0.0)

    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    app = McpEndpoint(hang)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://agentctx") as client:
        text, failed = await call(client, "search", query="anything")
    assert (failed, "did not answer" in text) == (True, True)


async def test_the_hook_tool_is_refused_with_a_pointer_to_the_bridge(daemon: RunningProxy) -> None:
    async with daemon.over_tcp() as port:
        text, failed = await call(port, "hook", event="UserPromptSubmit", prompt="When do we deploy?")
    assert (failed, "agentctx mcp" in text) == (True, True)
