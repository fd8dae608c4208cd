import json
from typing import Any

import pytest

from agentctx.agents.mcp.protocol import (
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    METHOD_NOT_FOUND,
    McpStep,
    header_problem,
    step,
    tool_result,
)
from agentctx.agents.mcp.tool_list import INSTRUCTIONS

STATELESS = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


def asked(method: str, params: dict[str, Any] | None = None) -> McpStep:
    return step({"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}, version="1.2")


def result(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    (reply,) = asked(method, params).messages
    assert reply["id"] == 7
    return dict(reply["result"])


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_known_version_of_the_handshake_is_echoed(version: str) -> None:
    reply = result("initialize", {"protocolVersion": version})
    assert reply["protocolVersion"] == version
    assert reply["instructions"] == INSTRUCTIONS
    assert reply["serverInfo"]["version"] == "1.2"
    assert "resultType" not in reply


@pytest.mark.parametrize("version", ["2031-01-01", None, 5])
def test_an_unknown_version_is_answered_with_the_newest(version: object) -> None:
    assert result("initialize", {"protocolVersion": version})["protocolVersion"] == "2025-11-25"


def test_discover_is_the_first_request_of_the_stateless_era() -> None:
    reply = result("server/discover", STATELESS)
    assert reply["supportedVersions"] == ["2026-07-28"]
    assert reply["instructions"] == INSTRUCTIONS
    assert reply["resultType"] == "complete"
    assert reply["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "agentctx"


@pytest.mark.parametrize(
    ("method", "member"),
    [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ],
)
def test_lists_say_how_long_they_hold_in_the_stateless_era_alone(method: str, member: str) -> None:
    old, new = result(method), result(method, STATELESS)
    assert set(old) == {member}
    assert new[member] == old[member]
    assert new["resultType"] == "complete"
    assert new["cacheScope"] == "private"
    assert new["ttlMs"] > 0


def forms_of(meta: dict[str, Any], handshake: dict[str, Any] | None) -> int:
    """Return how many forms the steps of a client may show in a call."""
    begun = (
        step({"id": 1, "method": "initialize", "params": handshake}, version="1").forms if handshake else 0
    )
    message = {"id": 2, "method": "tools/call", "params": {"name": "forget", "_meta": meta}}
    call = step(message, version="1", forms=begun or 0).call
    assert call is not None
    listed = step({"id": 3, "method": "tools/list", "params": {"_meta": meta}}, version="1", forms=begun or 0)
    names = [tool["name"] for tool in listed.messages[0]["result"]["tools"]]
    assert (len(names), "review" in names) == ((7, True) if call.forms else (6, False))
    review = step(
        {"id": 4, "method": "tools/call", "params": {"name": "review", "_meta": meta}},
        version="1",
        forms=begun or 0,
    )
    assert (review.call is not None) == bool(call.forms)
    return call.forms


FORMS: dict[str, Any] = {"elicitation": {}}


@pytest.mark.parametrize(
    ("capabilities", "handshake", "forms"),
    [
        (None, None, 0),
        (None, {"protocolVersion": "2025-06-18", "capabilities": FORMS}, 100),
        (None, {"protocolVersion": "2031-01-01", "capabilities": FORMS}, 100),
        (None, {"protocolVersion": "2025-03-26", "capabilities": FORMS}, 0),
        (None, {"protocolVersion": "2025-06-18", "capabilities": []}, 0),
        (None, {"protocolVersion": "2025-06-18"}, 0),
        (FORMS, None, 8),
        (FORMS, {"protocolVersion": "2025-03-26"}, 8),
        ({"elicitation": {"url": {}}}, {"protocolVersion": "2025-06-18", "capabilities": FORMS}, 0),
        ({}, None, 0),
    ],
)
def test_forms_and_the_review_are_for_clients_that_declare_them(
    capabilities: dict[str, Any] | None, handshake: dict[str, Any] | None, forms: int
) -> None:
    client = {"io.modelcontextprotocol/clientCapabilities": capabilities}
    meta = {} if capabilities is None else STATELESS["_meta"] | client
    assert forms_of(meta, handshake) == forms


def test_a_question_is_a_result_that_requires_input() -> None:
    params = {
        **STATELESS,
        "name": "forget",
        "requestState": "s",
        "inputResponses": {"answer": {"action": "a"}},
    }
    call = asked("tools/call", params).call
    assert call is not None
    assert (call.state, call.answer) == ("s", {"action": "a"})
    reply = tool_result(call, {"inputRequests": {}, "requestState": "t"}, failed=False, version="1")["result"]
    assert (reply["resultType"], reply["requestState"], "content" in reply) == ("input_required", "t", False)
    hostile = asked("tools/call", params | {"inputResponses": [1]}).call
    assert hostile is not None
    assert hostile.answer is None


def test_ping_is_empty() -> None:
    assert result("ping") == {}


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel"])
def test_the_stateless_era_has_no_methods_of_the_handshake(method: str) -> None:
    (reply,) = asked(method, STATELESS).messages
    assert reply["error"]["code"] == METHOD_NOT_FOUND


def test_an_unsupported_version_gets_the_supported_ones() -> None:
    params = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2030-01-01"}}
    (reply,) = asked("tools/list", params).messages
    assert reply["error"]["code"] == -32022
    assert reply["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2030-01-01"}


def test_a_subscription_is_acknowledged_and_stays_open() -> None:
    params = STATELESS | {"notifications": {"toolsListChanged": True}}
    (notice,) = asked("subscriptions/listen", params).messages
    assert notice["method"] == "notifications/subscriptions/acknowledged"
    assert "id" not in notice
    assert notice["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 7}
    assert notice["params"]["notifications"] == {}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"jsonrpc": "2.0", "id": 7, "method": "sampling/what"}, -32601),
        ({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": []}, -32602),
        ({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "rm"}}, -32602),
        ({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": ["x"]}}, -32602),
        (
            {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "save", "arguments": []}},
            -32602,
        ),
        ({"jsonrpc": "2.0", "id": 7, "method": "prompts/get", "params": {"name": "none"}}, -32602),
        ({"jsonrpc": "2.0", "id": 7, "method": "resources/read", "params": {"uri": "a:b"}}, -32602),
        ({"jsonrpc": "2.0", "id": [1], "method": "ping"}, -32600),
        ({"jsonrpc": "2.0"}, -32600),
        ("hello", -32600),
        (5, -32600),
    ],
)
def test_an_unanswerable_request_is_an_error(message: object, code: int) -> None:
    decided = step(message, version="1")
    assert decided.call is None
    assert [reply["error"]["code"] for reply in decided.messages] == [code]


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
        {"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "no"}},
    ],
)
def test_notifications_and_replies_get_no_answer(message: object) -> None:
    assert step(message, version="1") == McpStep()


@pytest.mark.parametrize("meta", [{}, STATELESS])
def test_a_tool_call_is_run_and_its_text_is_the_only_content(meta: dict[str, Any]) -> None:
    call = asked("tools/call", meta | {"name": "search", "arguments": {"query": "q"}}).call
    assert call is not None
    reply = tool_result(call, "the text", failed=False, version="1")
    assert reply["id"] == 7
    assert reply["result"]["content"] == [{"type": "text", "text": "the text"}]
    assert "structuredContent" not in reply["result"]
    assert ("resultType" in reply["result"]) is bool(meta)


def test_the_thread_of_the_client_is_the_conversation() -> None:
    call = asked("tools/call", {"name": "save", "_meta": {"threadId": "t-1"}}).call
    assert call is not None
    assert call.conversation == "t-1"


def test_the_prompt_has_a_description_and_can_be_got() -> None:
    (prompt,) = result("prompts/list")["prompts"]
    assert prompt["description"]
    (message,) = result("prompts/get", {"name": prompt["name"], "arguments": {"topic": "tides"}})["messages"]
    assert "tides" in json.dumps(message)


@pytest.mark.parametrize("message", [[], 1, {"id": 1, "method": "ping", "params": []}])
def test_headers_are_not_compared_with_a_non_request(message: object) -> None:
    assert header_problem(message, {"mcp-protocol-version": "1999-01-01"}) is None


@pytest.mark.parametrize(
    ("method", "subject"), [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")]
)
def test_the_header_names_what_the_request_names(method: str, subject: str) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"id": 1, "method": method, "params": {subject: "search", "_meta": meta}}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    assert header_problem(message, {**headers, "mcp-name": "search"}) is None
    problem = header_problem(message, {**headers, "mcp-name": "save"})
    assert problem is not None
    assert (problem["id"], problem["error"]["code"]) == (1, HEADER_MISMATCH)


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1.0, "method": "ping"},
        {"id": 10**30, "method": "ping"},
        {"id": "", "method": "ping"},
        {"id": 0, "method": "ping", "params": None},
        {"id": -1, "method": "tools/list", "params": {"cursor": None, "_meta": None}},
        {"id": 1, "method": "tools/list", "extra": True},
    ],
)
def test_what_official_servers_accept_is_answered(message: dict[str, Any]) -> None:
    (reply,) = step({"jsonrpc": "2.0", **message}, version="1").messages
    assert (reply["id"], "result" in reply) == (message["id"], True)


@pytest.mark.parametrize("request_id", [True, 1.5, float("nan"), float("inf"), [], {}])
def test_an_id_that_no_server_accepts_is_refused(request_id: object) -> None:
    (reply,) = step({"jsonrpc": "2.0", "id": request_id, "method": "ping"}, version="1").messages
    assert (reply["id"], reply["error"]["code"]) == (None, -32600)


@pytest.mark.parametrize("arguments", [None, {}])
def test_a_call_without_arguments_is_a_call(arguments: object) -> None:
    call = asked("tools/call", {"name": "search", "arguments": arguments}).call
    assert call is not None
    assert call.arguments == {}
