"""Routes for supervisors: is the daemon alive, and is it ready."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.responses import Response

from agentctx.errors import Unavailable
from agentctx.server.errors import error_response
from agentctx.server.service import Service

_OK = b'{"status":"ok"}'


class ProbeRoutes:
    """Plain routes without validation: `/healthz` looks at nothing, `/readyz` asks the service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        app.add_route("/healthz", self.healthz, methods=["GET", "POST"])
        app.add_route("/readyz", self.readyz, methods=["GET"])

    async def healthz(self, _: Request) -> Response:
        """Alive: the loop answers."""
        return Response(_OK, media_type="application/json")

    async def readyz(self, _: Request) -> Response:
        """Ready: requests are served. Else 503 with the reason."""
        if reason := self._service.not_ready():
            return error_response(Unavailable(reason, hint="Ask again in a moment."))
        return Response(_OK, media_type="application/json")
