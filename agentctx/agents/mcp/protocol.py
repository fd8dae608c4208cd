"""The MCP protocol: decide how to answer a message. No I/O and no state.

Revisions up to 2025-11-25 begin with a handshake (`initialize`). Since 2026-07-28, every request names its
revision in `_meta`, so each request shows to which era it belongs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agentctx.agents.mcp.asking import ANSWER, can_show_forms
from agentctx.agents.mcp.tool_list import HOOK_TOOL, INSTRUCTIONS, PROMPTS, prompt_messages, tools_for

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSIONS: Final = ("2026-07-28",)

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022

_META: Final = "io.modelcontextprotocol/"
_HANDSHAKE_METHODS: Final = frozenset({"initialize", "ping", "logging/setLevel"})
"""Methods removed by revision 2026-07-28."""
_SUBJECTS: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Requests with a subject, and the parameter that names it."""
_LIST_TTL_MS: Final = 3_600_000
"""The lists do not change while the bridge runs; a newer bridge is noticed within an hour."""

_FORMS_SINCE: Final = "2025-06-18"
_MAX_FORMS: Final = 100
_MAX_ROUNDS: Final = 8
"""The most forms if each answer repeats the call: the official clients give up after ten times."""

Message = dict[str, Any]


MAX_BATCH: Final = 64
"""Maximum number of messages in a batch: its tool calls run one after another."""


class McpToolCall(NamedTuple):
    """A tool call to run. `conversation` is the client's id of the thread, if the call has one.

    `forms` is the most forms that the client shows in it; a stateless one repeats it with `state`, `answer`.
    """

    id: str | int
    name: str
    arguments: Message
    conversation: str | None
    is_stateless: bool
    forms: int = 0
    state: object = None
    answer: object = None


class McpStep(NamedTuple):
    """The messages to send now, the tool call whose result is sent later, and `forms` after a handshake."""

    messages: tuple[Message, ...] = ()
    call: McpToolCall | None = None
    forms: int | None = None


def step(message: object, *, version: str, forms: int = 0) -> McpStep:
    """Decide how to answer a message. `version` is this program's own, `forms` that of the handshake."""
    if not isinstance(message, dict) or not isinstance(method := message.get("method"), str):
        is_reply = isinstance(message, dict) and ("result" in message or "error" in message)
        return McpStep() if is_reply else _failed(None, INVALID_REQUEST, "This is not a JSON-RPC request.")
    request_id = message.get("id")
    if request_id is None:
        return McpStep()
    if not _is_id(request_id):
        return _failed(None, INVALID_REQUEST, "The id of a request must be a string or a whole number.")
    params = {} if message.get("params") is None else message["params"]
    if not isinstance(params, dict):
        return _failed(request_id, INVALID_PARAMS, "`params` is not an object.")
    return _answer(request_id, method, params, version, forms)


def batch_problem(messages: list[Any]) -> Message | None:
    """Return the error if a batch has no messages, or too many; None if it can be answered."""
    if not messages:
        return error(None, INVALID_REQUEST, "The batch is empty.")
    if len(messages) > MAX_BATCH:
        text = f"The batch has {len(messages):,} messages; at most {MAX_BATCH} are allowed."
        return error(None, INVALID_REQUEST, text)
    return None


def _is_id(value: object) -> bool:
    """Return whether a request may have this id. To JavaScript, 1.0 is the whole number 1."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, str | int) and not isinstance(value, bool)


def revision_of(message: object) -> str | None:
    """Return the revision that a message names; messages of the handshake era name none."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    revision = meta.get(f"{_META}protocolVersion") if isinstance(meta, dict) else None
    return revision if isinstance(revision, str) else None


def header_problem(message: object, headers: Mapping[str, str]) -> Message | None:
    """Return the error if the headers (lower-case names) of an HTTP message contradict its body, else None.

    Since 2026-07-28, the headers repeat the revision, method and subject for intermediaries.
    """
    if not isinstance(message, dict) or not isinstance(params := message.get("params", {}), dict):
        return None
    revision = revision_of(message)
    given = headers.get("mcp-protocol-version")
    if revision is None:
        return _unstated_revision(message, given)
    if not isinstance(params["_meta"].get(f"{_META}clientCapabilities"), dict):
        return error(_id_of(message), INVALID_PARAMS, f"`_meta` needs {_META}clientCapabilities.")
    expected = {"mcp-protocol-version": revision, "mcp-method": message.get("method")}
    if (subject := _SUBJECTS.get(str(message.get("method")))) is not None:
        expected["mcp-name"] = params.get(subject)
    wrong = [name for name, value in expected.items() if value is not None and headers.get(name) != value]
    return _mismatched(message, wrong[0]) if wrong else None


def _unstated_revision(message: Message, given: str | None) -> Message | None:
    """Check a message that does not name a revision in its body, though it may in its header."""
    if given in STATELESS_VERSIONS:
        return error(_id_of(message), INVALID_PARAMS, f"`_meta` needs {_META}protocolVersion.")
    is_known = given is None or given in HANDSHAKE_VERSIONS
    return None if is_known else _mismatched(message, "mcp-protocol-version")


def _mismatched(message: Message, name: str) -> Message:
    return error(_id_of(message), HEADER_MISMATCH, f"The header {name} does not match the body.")


def _id_of(message: Message) -> str | int | None:
    request_id = message.get("id")
    return request_id if isinstance(request_id, str | int) else None


def tool_result(call: McpToolCall, text: str | Message, *, failed: bool, version: str) -> Message:
    """Build the reply to a tool call. It has only text: given JSON too, clients show the model only that.

    Instead of text it may be a question, which a stateless client has to answer.
    """
    if not isinstance(text, str):
        return _reply(call.id, _complete(text, version) | {"resultType": "input_required"})
    result: Message = {"content": [{"type": "text", "text": text}], "isError": failed}
    return _reply(call.id, _complete(result, version) if call.is_stateless else result)


def error(request_id: str | int | None, code: int, text: str, data: Message | None = None) -> Message:
    """Build a JSON-RPC error. `request_id` is None if the id of the message is unknown."""
    fault: Message = {"code": code, "message": text}
    return {"jsonrpc": "2.0", "id": request_id, "error": fault | ({"data": data} if data else {})}


def _failed(request_id: str | int | None, code: int, text: str, data: Message | None = None) -> McpStep:
    return McpStep((error(request_id, code, text, data),))


def _answer(request_id: str | int, method: str, params: Message, version: str, forms: int) -> McpStep:
    meta = params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    asked = meta.get(f"{_META}protocolVersion")
    if asked is not None and asked not in STATELESS_VERSIONS:
        data = {"supported": list(STATELESS_VERSIONS), "requested": str(asked)}
        return _failed(request_id, UNSUPPORTED_VERSION, "Unsupported protocol version.", data)
    if asked is not None and method in _HANDSHAKE_METHODS:
        return _failed(request_id, METHOD_NOT_FOUND, f"{asked} has no {method}.")
    is_stateless = asked is not None or method == "server/discover"
    if is_stateless:
        forms = _MAX_ROUNDS if can_show_forms(meta.get(f"{_META}clientCapabilities")) else 0
    if method == "tools/call":
        return _call(request_id, params, meta, is_stateless, forms)
    if method == "subscriptions/listen":
        return McpStep((_acknowledged(request_id),))
    result = _result(method, params, version, forms)
    if isinstance(result, str):
        code = INVALID_PARAMS if method in {"prompts/get", "resources/read"} else METHOD_NOT_FOUND
        return _failed(request_id, code, result)
    reply = _reply(request_id, _stamped(method, result, version) if is_stateless else result)
    return McpStep((reply,), forms=_forms_after(params, result) if method == "initialize" else None)


def _forms_after(params: Message, handshake: Message) -> int:
    is_able = handshake["protocolVersion"] >= _FORMS_SINCE and can_show_forms(params.get("capabilities"))
    return _MAX_FORMS if is_able else 0


def _result(method: str, params: Message, version: str, forms: int) -> Message | str:
    """Return the result of a request that does not need the daemon, or the text of its error."""
    match method:
        case "initialize":
            result: Message | str = _handshake(params.get("protocolVersion"), version)
        case "server/discover":
            result = {
                "supportedVersions": list(STATELESS_VERSIONS),
                "capabilities": _capabilities(),
                "instructions": INSTRUCTIONS,
            }
        case "ping" | "logging/setLevel":
            result = {}
        case "tools/list":
            result = {"tools": tools_for(forms)}
        case "prompts/list":
            result = {"prompts": PROMPTS}
        case "prompts/get":
            messages = prompt_messages(params.get("name"), params.get("arguments"))
            result = {"messages": messages} if messages else "Unknown prompt. Use one of prompts/list."
        case "resources/list":
            result = {"resources": []}
        case "resources/templates/list":
            result = {"resourceTemplates": []}
        case "resources/read":
            result = "There are no resources. Use the tools search and context."
        case _:
            result = f"Unknown method {method[:80]!r}."
    return result


def _handshake(asked: object, version: str) -> Message:
    return {
        "protocolVersion": asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
        "capabilities": _capabilities(),
        "serverInfo": _server_info(version),
        "instructions": INSTRUCTIONS,
    }


def _capabilities() -> Message:
    return {"tools": {}, "prompts": {}, "resources": {}}


def _server_info(version: str) -> Message:
    return {"name": "agentctx", "title": "agentctx memory", "version": version}


def _call(request_id: str | int, params: Message, meta: Message, is_stateless: bool, forms: int) -> McpStep:
    name, arguments = params.get("name"), params.get("arguments")
    arguments = {} if arguments is None else arguments
    if name not in [HOOK_TOOL, *(tool["name"] for tool in tools_for(forms))]:  # a name may be unhashable
        return _failed(request_id, INVALID_PARAMS, f"Unknown tool {str(name)[:80]!r}. Use one of tools/list.")
    if not isinstance(arguments, dict):
        return _failed(request_id, INVALID_PARAMS, "`arguments` is not an object.")
    conversation = meta.get("threadId")
    thread = conversation if isinstance(conversation, str) else None
    answers = params.get("inputResponses")
    answer = answers.get(ANSWER) if isinstance(answers, dict) else None
    given = arguments, thread, is_stateless, forms, params.get("requestState"), answer
    return McpStep(call=McpToolCall(request_id, str(name), *given))


def _acknowledged(request_id: str | int) -> Message:
    """Acknowledge a subscription. No notification ever follows, because nothing changes."""
    params = {"notifications": {}, "_meta": {f"{_META}subscriptionId": request_id}}
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}


def _stamped(method: str, result: Message, version: str) -> Message:
    is_list = method == "server/discover" or method.endswith("/list")
    cache = {"ttlMs": _LIST_TTL_MS, "cacheScope": "private"} if is_list else {}
    return _complete(result, version) | cache


def _complete(result: Message, version: str) -> Message:
    return {**result, "resultType": "complete", "_meta": {f"{_META}serverInfo": _server_info(version)}}


def _reply(request_id: str | int, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}
