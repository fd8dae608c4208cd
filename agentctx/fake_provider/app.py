"""The application: the providers' endpoints, and those under `/__` that steer the server.

POST /__script    {"faults": [{"kind": "status", "status": 429, "request": 1}]}  replace the faults
GET  /__requests  what came in since the last reset
POST /__release   let slow replies go on
GET  /__held      answered when ?count=1 slow replies wait
POST /__reset     no faults, nothing came in, nothing waits
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentctx.fake_provider.asked import Payload, Refusal, Refused, require
from agentctx.fake_provider.delivery import Delivery
from agentctx.fake_provider.dialects.base import Dialect, EmbedEndpoint, RerankEndpoint, bearer_key
from agentctx.fake_provider.dialects.catalog import DIALECTS
from agentctx.fake_provider.dialects.google import find_key
from agentctx.fake_provider.faults import Fault, first_problem
from agentctx.fake_provider.gate import Gate
from agentctx.fake_provider.ranking import rank
from agentctx.fake_provider.retry_hints import hint_headers
from agentctx.fake_provider.rows import Row, spoil
from agentctx.fake_provider.script import Script
from agentctx.fake_provider.vectors import embed

ELSEWHERE = "/__elsewhere"
"""Where a redirect leads unless it says otherwise."""
_TEMPORARY_REDIRECT = 307


class FakeProviderApp:
    """`asgi` is the application.

    Args:
        script: which faults happen.
        gate: where slow replies wait.
        dimension: length of every model's vectors; None is what the real models give.
        key: the only key that is accepted; None accepts any.
        clock: milliseconds since the epoch, for dates in replies.
    """

    def __init__(
        self, script: Script, gate: Gate, *, dimension: int | None, key: str | None, clock: Callable[[], int]
    ) -> None:
        self._script = script
        self._gate = gate
        self._dimension = dimension
        self._key = key
        self._clock = clock
        self.asgi = Starlette(routes=[*self._provider_routes(), *self._own_routes()])

    def _provider_routes(self) -> list[Route]:
        return [
            Route(prefix + endpoint.path, partial(self._provide, dialect, endpoint), methods=["POST"])
            for dialect in DIALECTS.values()
            for endpoint in dialect.endpoints
            for prefix in dialect.prefixes
        ]

    def _own_routes(self) -> list[Route]:
        return [
            Route("/__script", self._set_script, methods=["POST"]),
            Route("/__requests", self._list_requests, methods=["GET"]),
            Route("/__release", self._release, methods=["POST"]),
            Route("/__held", self._wait_until_held, methods=["GET"]),
            Route("/__reset", self._reset, methods=["POST"]),
            Route(ELSEWHERE + "{rest:path}", self._elsewhere, methods=["GET", "POST"]),
        ]

    async def _provide(
        self, dialect: Dialect, endpoint: EmbedEndpoint | RerankEndpoint, request: Request
    ) -> Delivery | Response:
        try:
            payload = _as_json(await request.body())
        except ClientDisconnect:
            return Response()  # nobody reads it
        fault = self._script.take(dialect.provider, request.url.path, payload, has_key=_has_key(request))
        if fault and fault.kind == "status":
            return self._refuse(dialect, fault)
        if fault and fault.kind == "redirect":
            return _redirect(request, fault)
        try:
            self._require_key(dialect, request)
            reply, status = await self._answer(endpoint, request, payload, fault), 200
        except Refused as refused:
            reply, status = dialect.refusal(refused.refusal), refused.refusal.status
        kind, headers = (fault.kind, fault.headers) if fault else (None, {})
        return Delivery(status, _encode(reply), self._gate, headers, kind)

    def _refuse(self, dialect: Dialect, fault: Fault) -> Delivery:
        retry_info_s = fault.after_s if fault.hint == "retry_info" else None
        status = fault.status or 500
        body = dialect.refusal(Refusal(status, fault.message, fault.code, retry_info_s=retry_info_s))
        headers = {**hint_headers(fault, now_ms=self._clock()), **fault.headers}
        return Delivery(status, _encode(body), self._gate, headers)

    def _require_key(self, dialect: Dialect, request: Request) -> None:
        if dialect.keys is None:
            return
        key = dialect.keys.find(request)
        if not key:
            raise Refused(dialect.keys.missing)
        if self._key is not None and key != self._key:
            raise Refused(dialect.keys.wrong)

    async def _answer(
        self,
        endpoint: EmbedEndpoint | RerankEndpoint,
        request: Request,
        payload: object,
        fault: Fault | None,
    ) -> Payload:
        require(isinstance(payload, dict), "We could not parse the JSON body of your request.")
        body = payload if isinstance(payload, dict) else {}
        model = str(request.path_params.get("model", ""))
        if isinstance(endpoint, EmbedEndpoint):
            asked = endpoint.read(body, model)
            return endpoint.write(asked, _spoiled(await embed(asked, self._dimension), fault))
        wanted = endpoint.read(body, model)
        return endpoint.write(wanted, _spoiled(rank(wanted), fault))

    async def _set_script(self, request: Request) -> Response:
        try:
            wanted = _ScriptBody.model_validate_json(await request.body())
        except ValidationError as error:
            return JSONResponse({"error": first_problem(error)}, 400)
        self._script.set(wanted.faults)
        return Response(status_code=204)

    async def _list_requests(self, _: Request) -> Response:
        return JSONResponse({"requests": [asdict(seen) for seen in self._script.seen]})

    async def _release(self, _: Request) -> Response:
        return JSONResponse({"released": self._gate.release()})

    async def _wait_until_held(self, request: Request) -> Response:
        count = request.query_params.get("count", "1")
        if not count.isdecimal():
            return JSONResponse({"error": f"count: {count!r} is no number"}, 400)
        await self._gate.wait_until_held(int(count))
        return Response(status_code=204)

    async def _reset(self, _: Request) -> Response:
        self._script.reset()
        self._gate.release()
        return Response(status_code=204)

    async def _elsewhere(self, request: Request) -> Response:
        payload = _as_json(await request.body())
        self._script.record_elsewhere(request.url.path, payload, has_key=_has_key(request))
        return JSONResponse({"redirected": True})


class _ScriptBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    faults: list[Fault]


def _spoiled(rows: list[Row], fault: Fault | None) -> list[Row]:
    return spoil(fault.kind, rows) if fault and rows else rows


def _redirect(request: Request, fault: Fault) -> Response:
    location = fault.location or f"{str(request.base_url).rstrip('/')}{ELSEWHERE}{request.url.path}"
    return Response(
        status_code=fault.status or _TEMPORARY_REDIRECT, headers={**fault.headers, "location": location}
    )


def _as_json(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _encode(reply: Mapping[str, object]) -> bytes:
    return json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _has_key(request: Request) -> bool:
    return bool(bearer_key(request) or find_key(request) or request.headers.get("authorization"))
