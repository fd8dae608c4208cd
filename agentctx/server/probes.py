"""Routes for supervisors: liveness and readiness."""

from __future__ import annotations

import json

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agentctx.errors import Unavailable
from agentctx.server.errors import error_response
from agentctx.service.base import Service

_OK = b'{"status":"ok"}'
_OK_HEADERS = [(b"content-length", b"%d" % len(_OK)), (b"content-type", b"application/json")]


class ProbeRoutes:
    """Plain routes without validation: `/healthz` checks nothing, `/readyz` asks the service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        app.router.routes.append(Route("/healthz", _Liveness(), methods=["GET", "POST"]))
        app.add_route("/readyz", self.readyz, methods=["GET"])

    async def readyz(self, _: Request) -> Response:
        """Return 200 when requests are served, otherwise 503 with the reason. Lists what is degraded: without
        the embedding provider, the daemon saves and answers by keyword search.
        """
        if reason := self._service.not_ready():
            return error_response(Unavailable(reason, hint="Try again in a moment."))
        reasons = dict(self._service.degraded())
        body = {"status": "ok", "degraded": list(reasons), "reasons": reasons}
        return Response(json.dumps(body), media_type="application/json")


class _Liveness:
    """Liveness: the event loop answers. This is an ASGI application because probes are frequent and need
    neither a request object nor a response object.
    """

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(_OK_HEADERS)})
        await send({"type": "http.response.body", "body": _OK})


PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricRoutes:
    """A plain route without OpenAPI: its format is defined by Prometheus, not by a schema."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        app.add_route(PATH, self.metrics, methods=["GET"])

    async def metrics(self, _: Request) -> Response:
        """Return the metrics that `docs/observability.md` lists, in the text format."""
        return Response(await self._service.metrics(), headers={"Content-Type": CONTENT_TYPE})
