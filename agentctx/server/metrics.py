"""The route that Prometheus scrapes."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.responses import Response

from agentctx.service.base import Service

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
