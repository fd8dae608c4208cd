"""The ASGI application: routes, error handlers, middleware."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from agentctx.config.schema import Settings
from agentctx.errors import Unavailable
from agentctx.server.errors import error_response, unrouted
from agentctx.server.gate import AccessGate, policy_of, version_policy
from agentctx.server.mcp import McpEndpoint
from agentctx.server.openapi import describe
from agentctx.server.quota_gate import QuotaGate
from agentctx.server.request_context import RequestContext
from agentctx.server.routes import Services, operation_routes
from agentctx.server.strict_route import StrictRoute
from agentctx.service.guard import Guard
from agentctx.service.metrics import Metrics
from agentctx.service.status import Status
from agentctx.telemetry import NO_TELEMETRY, Telemetry


class Application:
    """Routes behind `gate`, which the application can describe.

    Starlette's own application would add middlewares to every request that have nothing left to do.
    """

    def __init__(self, routes: Sequence[BaseRoute], gate: Callable[[ASGIApp], ASGIApp]) -> None:
        self._router = Router(routes, redirect_slashes=False)
        self.routes = self._router.routes
        self._gated = gate(self._answer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        await self._gated(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            await unrouted(error, scope)(scope, receive, send)

    @cache  # noqa: B019 - there is one application
    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        return describe([route for route in self.routes if isinstance(route, StrictRoute)])


def create_app(
    services: Services,
    guard: Guard,
    settings: Settings,
    telemetry: Telemetry = NO_TELEMETRY,
    proxy: ASGIApp | None = None,
    quotas: QuotaGate | None = None,
) -> Application:
    """Build the application. `peer.Connection` must put the peer into the request's state; it also
    enforces the limits on the size and duration of requests. Each operation goes through `guard`, whose
    grants also decide who may call anything at all. `telemetry` receives every request. `proxy` serves
    everything below `/proxy/`. By default nobody has quotas.

    Raises:
        RouteWithoutPolicy: a route has no access policy.
    """
    methods = [guard(method) for method in services.operations()]
    plain = PlainRoutes(services.status, services.metrics)

    def gate(routes: ASGIApp) -> ASGIApp:
        gated = AccessGate(routes, guard.access, quotas)
        return RequestContext(gated, telemetry, version_policy(guard.access))

    app = Application(
        [
            Route("/healthz", _Liveness(), methods=["GET", "POST"]),
            *operation_routes(methods, settings.limits, telemetry),
            Route("/readyz", plain.readyz),
            Route("/metrics", plain.metrics),
            *([] if proxy is None else [Mount("/proxy", proxy)]),
            Route("/openapi.json", _openapi),
        ],
        gate,
    )
    app.routes.append(Route(McpEndpoint.path, McpEndpoint(app)))
    for route in app.routes:
        policy_of(route)  # raises if it has none
    return app


async def _openapi(request: Request) -> Response:
    return JSONResponse(request.app.openapi())


_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OK = b'{"status":"ok"}'
_OK_HEADERS = [(b"content-length", b"%d" % len(_OK)), (b"content-type", b"application/json")]


class _Liveness:
    """Liveness: the event loop answers. This is an ASGI application because probes are frequent and need
    neither a request object nor a response object.
    """

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(_OK_HEADERS)})
        await send({"type": "http.response.body", "body": _OK})


class PlainRoutes:
    """Routes without validation and OpenAPI."""

    def __init__(self, status: Status, metrics: Metrics) -> None:
        self._status = status
        self._metrics = metrics

    async def readyz(self, _: Request) -> Response:
        """Return 200 when requests are served, otherwise 503 with the reason. Lists what is degraded: without
        the embedding provider, the daemon saves and answers by keyword search.
        """
        if reason := self._status.not_ready():
            return error_response(Unavailable(reason, hint="Try again in a moment."))
        reasons = dict(self._status.degraded())
        body = {"status": "ok", "degraded": list(reasons), "reasons": reasons}
        return Response(json.dumps(body), media_type="application/json")

    async def metrics(self, _: Request) -> Response:
        """Return the metrics that `docs/observability.md` lists, in the text format of Prometheus."""
        return Response(await self._metrics.metrics(), headers={"Content-Type": _METRICS_TYPE})
