"""The routes under `/__`, with which other processes control the server."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentctx_testing.fake_provider.answers import FakeAnswer
from agentctx_testing.fake_provider.faults import HttpFault, first_problem
from agentctx_testing.fake_provider.script import RecordedRequest, Script

REDIRECT_TARGET = "/__elsewhere"
"""The default target of a redirect."""

_KEY_HEADERS = frozenset({"authorization", "x-api-key", "x-goog-api-key", "cookie"})
_KEY_IN_QUERY = re.compile(r"(?<![^&])key=[^&]*")


def control_routes(
    script: Script, record_of: Callable[[Request, bytes, str], RecordedRequest]
) -> list[Route]:
    """Return the control routes. `record_of` makes the record of a request to a provider."""

    async def set_script(request: Request) -> Response:
        try:
            body = _ScriptBody.model_validate_json(await request.body())
        except ValidationError as error:
            return JSONResponse({"error": first_problem(error)}, 400)
        if body.faults is not None:
            script.set(body.faults)
        if body.answers is not None:
            script.set_answers(body.answers)
        return Response(status_code=204)

    async def list_requests(_: Request) -> Response:
        return JSONResponse({"requests": [redacted_record(seen) for seen in script.seen]})

    async def release(_: Request) -> Response:
        return JSONResponse({"released": script.gate.release()})

    async def reset(_: Request) -> Response:
        script.reset()
        return Response(status_code=204)

    async def elsewhere(request: Request) -> Response:
        script.seen.append(record_of(request, await request.body(), "elsewhere"))
        return JSONResponse({"redirected": True})

    return [
        Route("/__script", set_script, methods=["POST"]),
        Route("/__requests", list_requests, methods=["GET"]),
        Route("/__release", release, methods=["POST"]),
        Route("/__held", _waiting(script.gate.wait_until_held), methods=["GET"]),
        Route("/__aborted", _waiting(script.wait_until_aborted), methods=["GET"]),
        Route("/__reset", reset, methods=["POST"]),
        Route(REDIRECT_TARGET + "{rest:path}", elsewhere, methods=["GET", "POST"]),
    ]


def redacted_record(seen: RecordedRequest) -> dict[str, Any]:
    """Return a record that may be shown: keys are removed and the body is text."""
    headers = [(name, "…" if name in _KEY_HEADERS else value) for name, value in seen.headers]
    return {
        **asdict(seen),
        "headers": headers,
        "query": _KEY_IN_QUERY.sub("key=…", seen.query),
        "body": seen.body.decode(errors="replace"),
    }


class _ScriptBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    faults: list[HttpFault] | None = None
    answers: list[FakeAnswer] | None = None


def _waiting(until: Callable[[int], Awaitable[None]]) -> Callable[[Request], Awaitable[Response]]:
    async def wait(request: Request) -> Response:
        count = request.query_params.get("count", "1")
        if not count.isdecimal():
            return JSONResponse({"error": f"count: {count!r} is not a number"}, 400)
        await until(int(count))
        return Response(status_code=204)

    return wait
