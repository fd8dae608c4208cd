"""Turns an error answer back into the class of `errors.py` that the daemon raised."""

from __future__ import annotations

import json
from typing import Any

from agentctx import errors
from agentctx.client.decode import UnreadableReply, decode
from agentctx.client.transport import HttpReply
from agentctx.errors import AgentctxError
from agentctx.wire.failures import ErrorBody, ErrorReply

_CLASSES: dict[str, type[AgentctxError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, AgentctxError)
}


def error_of(body: ErrorBody) -> AgentctxError:
    """The error for a wire error; a code this version does not know is kept on the base class."""
    kind = _CLASSES.get(body.code, AgentctxError)
    error = kind(body.message, hint=body.hint)
    error.code = body.code
    error.request_id = body.request_id or ""
    return error


def failure_of(reply: HttpReply) -> AgentctxError:
    """The error of an answer that is not a success, also when it is not ours (a plain 400 of the server)."""
    try:
        return error_of(decode(ErrorReply, parse(reply)).error)
    except UnreadableReply:
        return AgentctxError(
            f"The daemon answered HTTP {reply.status} without an error body.",
            hint="See the daemon's log, and check that agentctx listens on this socket.",
        )


def parse(reply: HttpReply) -> Any:
    """The JSON of an answer.

    Raises:
        UnreadableReply: it is not JSON.
    """
    try:
        return json.loads(reply.body)
    except ValueError as error:
        raise UnreadableReply(f"The daemon answered HTTP {reply.status} with something not JSON.") from error
