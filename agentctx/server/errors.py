"""Errors over HTTP: the status of each code, and the common body of all error replies."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import structlog
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from agentctx import wire
from agentctx.errors import AgentctxError, MethodNotAllowed, NotFound, RateLimited, RequestFailed, TooLarge

STATUS: Mapping[str, int] = {
    "invalid_input": 400,
    "unknown_collection": 400,
    "secret_refused": 400,
    "redaction_timed_out": 400,
    "unknown_provider": 400,
    "request_failed": 400,
    "not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "conflict": 409,
    "version_conflict": 409,
    "key_taken": 409,
    "upgrade_refused": 426,
    "forgotten": 409,
    "expired": 409,
    "idempotency_key_reused": 409,
    "supersession_refused": 409,
    "too_large": 413,
    "internal": 500,
    "config_invalid": 500,
    "storage_failed": 503,
    "storage_corrupt": 500,
    "schema_too_new": 500,
    "schema_too_old": 500,
    "schema_foreign": 500,
    "sqlite_unsuitable": 500,
    "already_running": 500,
    "provider_failed": 503,
    "spend_cap_reached": 503,
    "upstream_failed": 502,
    "access_denied": 403,
    "unavailable": 503,
    "storage_closed": 503,
    "database_missing": 503,
    "daemon_unreachable": 503,
    "deadline_exceeded": 504,
    "storage_full": 507,
    "out_of_memory": 503,
    "rate_limited": 429,
    "quota_exceeded": 507,
}

_MEANINGS = {
    400: "The request is not valid (`invalid_input`, `unknown_collection`, …).",
    403: "The caller has no right to do that (`access_denied`).",
    404: "The entry does not exist (`not_found`).",
    408: "The request did not arrive in time (`request_timeout`).",
    409: "Not possible in the present state (`conflict`, `version_conflict`, `idempotency_key_reused`).",
    413: "A body, a text or a list is over its limit (`too_large`).",
    431: "The request head is over its limit (`too_large`).",
    500: "A fault of the daemon (`internal`, `storage_corrupt`).",
    503: "Not ready yet, or stopping (`unavailable`), or the disk has failed (`storage_failed`).",
    504: "Not done within the deadline (`deadline_exceeded`).",
    507: "The disk is full (`storage_full`), or a user has stored as much as they may (`quota_exceeded`).",
}

_OUTAGES = ("storage_failed", "out_of_memory")
"""Codes that are logged although a retry can help: an operator has to check the machine or the server."""

INTERNAL = AgentctxError(
    "Internal error in the daemon.",
    hint="The daemon's log has the details under the X-Request-Id of this reply.",
)
STOPPING_HINT = "Try again in a moment; repeat a save with the same Idempotency-Key."

_log = structlog.get_logger(__name__)

FAULT_INTERVAL_S = 60.0


class FaultLog:
    """Decides which faults are logged, so that an outage does not fill the log with a line for each request.

    Lets the first fault of a kind through at once, and then one each minute.

    `kind` must come from a small set, like the codes of errors, because each is remembered.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: dict[str, tuple[float, int]] = {}
        """By kind: when the last one was logged, and how many were withheld since."""

    def due(self, kind: str) -> int | None:
        """Return how many faults were withheld since the last line, or None to withhold this one too."""
        now = self._clock()
        at, withheld = self._logged.get(kind, (-math.inf, 0))
        if now - at < FAULT_INTERVAL_S:
            self._logged[kind] = at, withheld + 1
            return None
        self._logged[kind] = now, 0
        return withheld


_outages = FaultLog()


def documented(*more: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route for OpenAPI: the errors of every request, and the given statuses.

    They refer to the schema that `SaveManyReply` already includes. `default` keeps FastAPI from adding its
    own shape for 422.
    """
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorReply"}}}
    known: dict[int | str, dict[str, Any]] = {
        status: {"description": _MEANINGS[status], "content": content}
        for status in sorted({400, 403, 408, 413, 431, 500, 503, *more})
    }
    return {**known, "default": {"description": "Any other error.", "content": content}}


def error_reply(error: AgentctxError, request_id: str | None = None) -> wire.ErrorReply:
    """Return the error body, with the given request id or the id of the current request."""
    bound = structlog.contextvars.get_contextvars().get("request_id")
    body = wire.ErrorBody(
        code=error.code, message=error.message, hint=error.hint, request_id=request_id or bound
    )
    return wire.ErrorReply(error=body)


def error_json(error: AgentctxError, request_id: str | None = None) -> bytes:
    return json.dumps(asdict(error_reply(error, request_id)), ensure_ascii=False).encode()


def error_response(error: AgentctxError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the reply to a failed request. Faults of the daemon itself are logged with their traceback.

    Outages are logged once a minute, with the number of those in between.
    """
    status = STATUS[error.code]
    if status == 500:
        _log.error("request_failed", code=error.code, message=error.message, exc_info=error)
    elif error.code in _OUTAGES and (withheld := _outages.due(error.code)) is not None:
        more = {"not_logged_before": withheld} if withheld else {}
        _log.error("request_failed", code=error.code, message=error.message, hint=error.hint, **more)
    headers = {**(headers or {}), **retry_after(error)}
    return Response(error_json(error), status, headers, media_type="application/json")


def retry_after(error: AgentctxError) -> dict[str, str]:
    """Return the Retry-After header of a `RateLimited` error in whole seconds; empty for other errors."""
    if not isinstance(error, RateLimited):
        return {}
    return {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}


def unrouted(error: HTTPException, scope: Scope) -> Response:
    """Return the reply to a request that no route answers."""
    if error.status_code == 405:
        routes = [route for route in scope["app"].routes if isinstance(route, Route)]
        matching = [route for route in routes if route.matches(scope)[0] is not Match.NONE]
        allowed = ", ".join(sorted({method for route in matching for method in route.methods or ()}))
        return error_response(
            MethodNotAllowed(f"{scope['method']} is not allowed on this path.", hint=f"Allowed: {allowed}."),
            {"Allow": allowed},
        )
    if error.status_code == 404:
        return error_response(NotFound("Unknown path.", hint="GET /openapi.json lists all paths."))
    if error.status_code == 413:
        return error_response(TooLarge("The request body is too large."))
    return error_response(RequestFailed("The request is not valid HTTP."))
