"""The routes under `/__`, with which other processes control the server."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentctx.fake_provider.answers import FakeAnswer
from agentctx.fake_provider.chat import Chat
from agentctx.fake_provider.faults import HttpFault, first_problem
from agentctx.fake_provider.gate import ReplyGate
from agentctx.fake_provider.script import RecordedRequest, Script

REDIRECT_TARGET = "/__elsewhere"
"""The default target of a redirect."""

_KEY_HEADERS = frozenset({"authorization", "x-api-key", "x-goog-api-key", "cookie"})
_KEY_IN_QUERY = re.compile(r"(?<![^&])key=[^&]*")


def control_routes(
    script: Script, gate: ReplyGate, chat: Chat, record_of: Callable[[str, Request, bytes], RecordedRequest]
) -> list[Route]:
    """Return the control routes. `record_of` makes the record of a request."""
    controls = _Controls(script, gate, chat, record_of)
    return [
        Route("/__script", controls.set_script, methods=["POST"]),
        Route("/__requests", controls.list_requests, methods=["GET"]),
        Route("/__release", controls.release, methods=["POST"]),
        Route("/__held", controls.wait_until_held, methods=["GET"]),
        Route("/__aborted", controls.wait_until_aborted, methods=["GET"]),
        Route("/__reset", controls.reset, methods=["POST"]),
        Route(REDIRECT_TARGET + "{rest:path}", controls.elsewhere, methods=["GET", "POST"]),
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


class _Controls:
    def __init__(
        self,
        script: Script,
        gate: ReplyGate,
        chat: Chat,
        record_of: Callable[[str, Request, bytes], RecordedRequest],
    ) -> None:
        self._script = script
        self._gate = gate
        self._chat = chat
        self._record_of = record_of

    async def set_script(self, request: Request) -> Response:
        try:
            wanted = _ScriptBody.model_validate_json(await request.body())
        except ValidationError as error:
            return JSONResponse({"error": first_problem(error)}, 400)
        if wanted.faults is not None:
            self._script.set(wanted.faults)
        if wanted.answers is not None:
            self._script.set_answers(wanted.answers)
        return Response(status_code=204)

    async def list_requests(self, _: Request) -> Response:
        return JSONResponse({"requests": [redacted_record(seen) for seen in self._script.seen]})

    async def release(self, _: Request) -> Response:
        return JSONResponse({"released": self._gate.release()})

    async def wait_until_held(self, request: Request) -> Response:
        return await _wait_for(request, self._gate.wait_until_held)

    async def wait_until_aborted(self, request: Request) -> Response:
        return await _wait_for(request, self._script.wait_until_aborted)

    async def reset(self, _: Request) -> Response:
        self._script.reset()
        self._chat.forget()
        self._gate.release()
        return Response(status_code=204)

    async def elsewhere(self, request: Request) -> Response:
        self._script.record(self._record_of("elsewhere", request, await request.body()))
        return JSONResponse({"redirected": True})


class _ScriptBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    faults: list[HttpFault] | None = None
    answers: list[FakeAnswer] | None = None


async def _wait_for(request: Request, until: Callable[[int], Any]) -> Response:
    count = request.query_params.get("count", "1")
    if not count.isdecimal():
        return JSONResponse({"error": f"count: {count!r} is not a number"}, 400)
    await until(int(count))
    return Response(status_code=204)
