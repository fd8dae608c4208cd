"""`agentctx mcp`: serve MCP over stdin and stdout on behalf of the daemon.

Each line is a message. Tool calls run in threads, so that a slow one does not block `ping` or other calls.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, Final

from agentctx import __version__
from agentctx.agents.arguments import UsageError, last_of, namespaces_in, parsed
from agentctx.agents.daemon import DaemonRefused, DaemonUnavailable, ask, socket_path
from agentctx.agents.hooks.hook import handle
from agentctx.agents.hooks.hook_events import CLIENTS
from agentctx.agents.mcp.asking import UNANSWERED, Form, FormAnswer, answer_to
from agentctx.agents.mcp.protocol import (
    INVALID_REQUEST,
    PARSE_ERROR,
    McpToolCall,
    Message,
    batch_problem,
    error,
    step,
    tool_result,
)
from agentctx.agents.mcp.tool_calls import call_steps
from agentctx.agents.mcp.tool_list import HOOK_TOOL
from agentctx.agents.mcp.tools import ApiRequest, InvalidToolArguments, ToolScope, failure_text
from agentctx.config.project import OUTSIDE, own_namespace, project_of
from agentctx.names import name_from

TIMEOUT_S: Final = 10.0
"""Timeout of a tool call's request to the daemon."""
_UNREADABLE: Final = (
    "The daemon's reply cannot be read, because the daemon runs another version. "
    "Restart it with the `agentctx` that runs this bridge."
)
MAX_MESSAGE_BYTES: Final = 8 << 20
MAX_CALLS: Final = 8
"""Maximum number of concurrent tool calls, without those that wait for the user; further ones wait."""
MAX_UNANSWERED: Final = 64
ANSWER_S: Final = 600.0
"""How long a form waits for the user."""


def main(args: Sequence[str]) -> int:
    """Serve until stdin ends; return the exit code."""
    try:
        words, options = parsed(args, options=("--socket", "--namespace", "--agent"))
        if words:
            raise UsageError(f"Unexpected argument {words[0]}.")
        named = namespaces_in(options)
    except UsageError as error:
        sys.stderr.write(f"agentctx mcp: {error}\n")
        return 2
    scope = _scope(named, last_of(options, "--agent"), os.environ)
    requests, replies = _take_over_streams()
    try:
        Bridge(replies, named_socket=last_of(options, "--socket"), scope=scope).serve(requests)
    except (KeyboardInterrupt, BrokenPipeError):
        return 0
    return 0


class OpenForms:
    """Sends forms to the client, and gives each answer to the call that waits for it."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._waiting: dict[str, tuple[object, SimpleQueue[Any]]] = {}  # by id of the form: call and replies
        self.cancelled: set[object] = set()

    def ask(self, call: object, form: Form) -> FormAnswer:
        """Show a form until it is answered or its call is cancelled, for 10 minutes at most."""
        number, replies = f"form-{os.urandom(8).hex()}", SimpleQueue[Any]()
        self._waiting[number] = call, replies
        try:
            if not self.cancelled & {call, None}:
                request = {"id": number, "method": "elicitation/create", "params": form.params}
                self._send({"jsonrpc": "2.0", **request})
                return answer_to(form, replies.get(timeout=ANSWER_S)["result"])
        except (Empty, KeyError):
            withdrawn = {"requestId": number, "reason": UNANSWERED}
            self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": withdrawn})
        finally:
            del self._waiting[number]
        return FormAnswer(why=UNANSWERED)

    def receive(self, message: object) -> None:
        """Take answers and cancellations out of what the client sends."""
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": str() | int() as call}}:
                self.cancel(call)
            case {"id": str(number), **rest} if "method" not in rest and (
                asking := self._waiting.get(number)
            ):
                asking[1].put(message)

    def cancel(self, cancelled: str | int | None) -> None:
        """End the questions of a call; None: of all that ever come, since the client is gone."""
        self.cancelled.add(cancelled)
        for call, replies in list(self._waiting.values()):
            if cancelled in {call, None}:
                replies.put({})


class Bridge:
    """Answers the messages of one client."""

    def __init__(self, replies: BinaryIO, *, named_socket: str | None, scope: ToolScope) -> None:
        self._replies = replies
        self._named_socket = named_socket
        self._scope = scope
        self._unanswered: dict[str, str] = {}  # idempotency keys of saves, by their content
        self._writing = threading.Lock()
        self._slots = threading.BoundedSemaphore(MAX_CALLS)
        self._threads: set[threading.Thread] = set()
        self._open_forms = OpenForms(self._send)
        self._forms = 0
        self._secret = os.urandom(32)

    def serve(self, requests: BinaryIO) -> None:
        """FormAnswer each line until the stream ends, then wait for the running calls."""
        while line := requests.readline(MAX_MESSAGE_BYTES):
            if not line.endswith(b"\n") and len(line) == MAX_MESSAGE_BYTES:
                while (rest := requests.readline(MAX_MESSAGE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                self._send(error(None, INVALID_REQUEST, f"The message exceeds {MAX_MESSAGE_BYTES} bytes."))
            elif line.strip():
                self._receive(line)
        self._open_forms.cancel(None)
        for thread in list(self._threads):
            thread.join(TIMEOUT_S * 2)

    def _receive(self, line: bytes) -> None:
        try:
            message = json.loads(line.decode("utf-8-sig", errors="replace"))
        except (ValueError, RecursionError):
            self._send(error(None, PARSE_ERROR, "This line is not JSON."))
            return
        if isinstance(message, list):  # a batch, as in revision 2025-03-26
            self._start(partial(self._batch, message))
            return
        self._open_forms.receive(message)
        decided = step(message, version=__version__, forms=self._forms)
        self._forms = self._forms if decided.forms is None else decided.forms
        for reply in decided.messages:
            self._send(reply)
        if (call := decided.call) is not None:
            self._start(lambda: self._send(self._run(call)))

    def _batch(self, messages: list[Any]) -> None:
        if problem := batch_problem(messages):
            self._send(problem)
            return
        replies: list[Message] = []
        for message in messages:
            self._open_forms.receive(message)
            decided = step(message, version=__version__, forms=self._forms)
            replies += decided.messages
            if decided.call is not None:
                replies.append(self._run(decided.call))
        if replies:
            self._send(replies)

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._work, args=(work,), daemon=True)
        self._threads.add(thread)
        thread.start()

    def _work(self, work: Callable[[], None]) -> None:
        try:
            with self._slots:
                work()
        except BrokenPipeError:
            pass  # the client is gone, so nobody would read the reply
        finally:
            self._threads.discard(threading.current_thread())

    def _run(self, call: McpToolCall) -> Message:
        try:
            text, failed = self._outcome(call), False
        except (InvalidToolArguments, DaemonUnavailable) as problem:
            text, failed = str(problem), True
        except DaemonRefused as refusal:
            text, failed = failure_text(refusal.code, refusal.message, refusal.hint), True
        except (KeyError, TypeError, AttributeError):
            text, failed = _UNREADABLE, True
        return tool_result(call, text, failed=failed, version=__version__)

    def _outcome(self, call: McpToolCall) -> Any:
        scope = self._scope._replace(session=name_from(call.conversation or self._scope.session))
        if call.name == HOOK_TOOL:
            return json.dumps(self._hook(call.arguments))
        steps = call_steps(call, scope, secret=self._secret)
        reply: Any = None
        while True:
            try:
                request = steps.send(reply)
            except StopIteration as done:
                return done.value
            reply = self._answer(call, request) if isinstance(request, Form) else self._reply(request)

    def _answer(self, call: McpToolCall, form: Form) -> FormAnswer:
        self._slots.release()  # a person takes minutes
        try:
            return self._open_forms.ask(call.id, form)
        finally:
            self._slots.acquire()

    def _reply(self, request: ApiRequest) -> Any:
        send = self._save if request.path == "/v1/entries" else partial(ask, timeout_s=TIMEOUT_S)
        try:
            return send(socket_path(self._named_socket), request.method, request.path, request.body)
        except DaemonRefused:
            if request.optional:
                return None
            raise

    def _save(self, *request: Any) -> Any:
        """Send a save. One that is repeated because it was not answered counts as the same."""
        content = json.dumps(request)
        key = self._unanswered.pop(content, f"mcp-{os.urandom(16).hex()}")
        try:
            return ask(*request, timeout_s=TIMEOUT_S, idempotency_key=key)
        except DaemonUnavailable:
            if len(self._unanswered) >= MAX_UNANSWERED:
                self._unanswered.clear()
            self._unanswered[content] = key
            raise

    def _hook(self, event: Message) -> Message:
        """Return the JSON answer to a client's hook; empty if there is nothing to add."""
        client = self._scope.agent or ""
        if client not in CLIENTS:
            raise InvalidToolArguments(f"Start this server with --agent and one of {', '.join(CLIENTS)}.")
        answer = handle(
            str(event.get("event")),
            client,
            event,
            namespaces=self._scope.asked,
            socket=socket_path(self._named_socket),
            remember=event.get("remember"),
        )
        return answer or {}

    def _send(self, message: Message | list[Message]) -> None:
        if (
            isinstance(message, dict)
            and "method" not in message
            and message["id"] in self._open_forms.cancelled
        ):
            return
        line = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        with self._writing:
            self._replies.write(line)
            self._replies.flush()


def _scope(named: Sequence[str], agent: str | None, env: Mapping[str, str]) -> ToolScope:
    """Build the scope. All namespaces in `named` are searched; the first receives saves."""
    folder = env.get("CLAUDE_PROJECT_DIR") or os.curdir
    session = env.get("CLAUDE_CODE_SESSION_ID") or f"mcp-{os.getpid()}-{os.urandom(3).hex()}"
    if named:
        return ToolScope(named[0], session, agent, also=tuple(named[1:]), seen={})
    return ToolScope(project_of(folder), session, agent, own=own_namespace(), also=(OUTSIDE,), seen={})


def _take_over_streams() -> tuple[BinaryIO, BinaryIO]:
    """Take over stdin and stdout for the protocol; a stray print goes to stderr."""
    for stream in (0, 1):
        os.set_blocking(stream, True)  # some parents pass on pipes that they read without waiting
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without stderr
        os.dup2(nowhere, 1)
    os.close(nowhere)
    sys.stdout = sys.stderr
    return requests, replies
