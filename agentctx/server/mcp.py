"""`/mcp`: MCP over streamable HTTP, with the messages and tools of the stdio bridge.

There are no MCP sessions that a restart of the daemon could lose. A tool call becomes a request to the
daemon's own API in the name of the peer, with its checks and limits.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from agentctx import __version__
from agentctx.agents.mcp.protocol import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    McpStep,
    McpToolCall,
    batch_problem,
    error,
    header_problem,
    revision_of,
    step,
    tool_result,
)
from agentctx.agents.mcp.tool_calls import call_steps
from agentctx.agents.mcp.tools import (
    ApiRequest,
    InvalidToolArguments,
    ToolScope,
    failure_text,
    late_text,
)
from agentctx.llm.scope import NAMESPACE_HEADER, namespaces_in
from agentctx.server.inner_call import call_api
from agentctx.server.strict_route import body_of
from agentctx.wire import DEFAULT_NAMESPACE

TIMEOUT_S: Final = 10.0
"""Time limit of a tool call."""
_OK: Final = range(200, 300)
_ERROR_STATUS: Final = {METHOD_NOT_FOUND: 404}
"""HTTP status by JSON-RPC error code of a stateless request; 400 for others."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes = b""
    kind: str = "application/json"
    stays_open: bool = False


class McpEndpoint:
    """ASGI application for one path.

    The headers `X-Agentctx-Namespace`, `X-Agentctx-Session` and `X-Agentctx-Agent` select the memory.

    Args:
        api: the daemon's API, called as the peer of the connection.
    """

    path: ClassVar[str] = "/mcp"

    def __init__(self, api: ASGIApp) -> None:
        self._api = api
        self._secret = os.urandom(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(scope, receive)
        headers = [(b"content-type", answer.kind.encode()), (b"cache-control", b"no-store")]
        if scope["method"] != "POST":
            headers.append((b"allow", b"POST"))
        if not answer.stays_open:
            headers.append((b"content-length", b"%d" % len(answer.body)))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": answer.stays_open})
        if answer.stays_open:
            await _disconnected(receive)

    async def _answer(self, scope: Scope, receive: Receive) -> _Answer:
        if scope["method"] != "POST":
            return _failed(405, INVALID_REQUEST, "Use POST. This server sends no messages of its own.")
        headers = _headers(scope)
        try:
            message = json.loads(await body_of(receive))
        except (ValueError, RecursionError):
            return _failed(400, PARSE_ERROR, "The body is not JSON.")
        if isinstance(message, list):  # batches belong to 2025-03-26
            return await self._batch(message, scope, headers)
        if problem := header_problem(message, headers):
            return _Answer(400, _dumped(problem))
        decided = step(message, version=__version__)
        if decided.call is not None:
            return _Answer(200, _dumped(await self._run(decided.call, scope, headers)))
        return _without_call(message, decided)

    async def _batch(self, messages: list[Any], scope: Scope, headers: dict[str, str]) -> _Answer:
        if problem := batch_problem(messages):
            return _Answer(400, _dumped(problem))
        replies: list[dict[str, Any]] = []
        for message in messages:
            decided = step(message, version=__version__)
            replies += decided.messages
            if decided.call is not None:
                replies.append(await self._run(decided.call, scope, headers))
        return _Answer(200, _dumped(replies)) if replies else _Answer(202)

    async def _run(self, call: McpToolCall, scope: Scope, headers: dict[str, str]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                text, failed = await self._outcome(call, scope, headers)
        except InvalidToolArguments as misuse:
            text, failed = str(misuse), True
        except TimeoutError:
            text, failed = late_text(call.name, TIMEOUT_S), True
        return tool_result(call, text, failed=failed, version=__version__)

    async def _outcome(self, call: McpToolCall, scope: Scope, headers: dict[str, str]) -> tuple[Any, bool]:
        steps = call_steps(call, _scope_of(headers, call), secret=self._secret)
        reply = None
        while True:
            try:
                request = steps.send(reply)
            except StopIteration as done:
                return done.value, False
            status, reply = await self._ask(scope, request)
            if status not in _OK and not request.optional:
                return _refused(reply), True
            reply = reply if status in _OK else None

    async def _ask(self, outer: Scope, request: ApiRequest) -> tuple[int, Any]:
        body = b"" if request.body is None else json.dumps(request.body).encode()
        if request.is_asked:
            peer = replace(outer["state"]["peer"], via="mcp")
            outer = {**outer, "state": {**outer["state"], "peer": peer}}
        status, reply = await call_api(self._api, outer, request.method, request.path, body)
        return status, json.loads(reply)


class LoopbackApp:
    """Serves MCP at its path on the loopback port, and the proxy everywhere else."""

    def __init__(self, proxy: ASGIApp, mcp: McpEndpoint) -> None:
        self._proxy = proxy
        self._mcp = mcp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == McpEndpoint.path:
            scope["route"] = self._mcp  # requests are counted under the route's path
            await self._mcp(scope, receive, send)
        else:
            await self._proxy(scope, receive, send)


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1").strip() for name, value in scope["headers"]}


def _scope_of(headers: dict[str, str], call: McpToolCall) -> ToolScope:
    session = call.conversation or headers.get("x-agentctx-session") or "mcp"
    named = namespaces_in(headers.get(NAMESPACE_HEADER.lower()) or "") or (DEFAULT_NAMESPACE,)
    return ToolScope(named[0], session, headers.get("x-agentctx-agent"), also=named[1:])


def _without_call(message: Any, decided: McpStep) -> _Answer:
    if not decided.messages:
        return _Answer(202)
    (reply,) = decided.messages
    if "method" in reply:  # a subscription, which stays open although nothing changes
        return _Answer(200, b"data: " + _dumped(reply) + b"\n\n", "text/event-stream", stays_open=True)
    if "error" not in reply:
        return _Answer(200, _dumped(reply))
    status = _ERROR_STATUS.get(reply["error"]["code"], 400)
    return _Answer(status if revision_of(message) else 200, _dumped(reply))


def _refused(reply: Any) -> str:
    fault = reply["error"]
    return failure_text(fault["code"], fault["message"], fault.get("hint") or "")


def _failed(status: int, code: int, text: str) -> _Answer:
    return _Answer(status, _dumped(error(None, code, text)))


def _dumped(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
