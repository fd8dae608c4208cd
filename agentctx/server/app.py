"""The ASGI application: routes, error handlers, middleware."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp

from agentctx import __version__
from agentctx.access.control import AccessControl
from agentctx.config.schema import Settings
from agentctx.server.errors import HANDLERS
from agentctx.server.gate import AccessGate, declare_policies, version_policy
from agentctx.server.handlers import SAVE_RESPONSES, OperationHandlers
from agentctx.server.mcp import McpEndpoint
from agentctx.server.openapi import describe_fields
from agentctx.server.probes import MetricRoutes, ProbeRoutes
from agentctx.server.request_context import RequestContext
from agentctx.server.routes import Handler, add_operations
from agentctx.server.strict_route import StrictRoute
from agentctx.service.base import Service
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry

_NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


def create_app(
    service: Service,
    settings: Settings,
    telemetry: Telemetry = NO_TELEMETRY,
    proxy: ASGIApp | None = None,
    access: AccessControl | None = None,
    quota_gate: Callable[[ASGIApp], ASGIApp] | None = None,
) -> FastAPI:
    """Build the application over `service`. `connection.PeerProtocol` must put the peer into the request's
    state; it also enforces the limits on the size and duration of requests. `telemetry` receives every
    request. `proxy` serves everything below `/proxy/`. `access` refuses callers without a grant, by default
    according to the settings; rights on entries are checked by `service` (`guard`). `quota_gate` wraps an
    application in a `QuotaGate`; by default there are no quotas.

    Raises:
        RouteWithoutPolicy: a route has no access policy.
    """
    access = access or AccessControl(settings.access)
    app = FastAPI(
        title="agentctx",
        version=__version__,
        summary="One shared, durable memory for every agent process on a machine",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=False,
        middleware=[
            Middleware(RequestContext, telemetry, version_policy(access)),
            *([] if quota_gate is None else [Middleware(quota_gate)]),
            Middleware(AccessGate, access),
        ],
        exception_handlers=HANDLERS,
        generate_unique_id_function=_operation_id,
        telemetry=_NO_TELEMETRY,
    )
    app.router.route_class = StrictRoute
    # Routes are tried in order, so the most frequent come first.
    ProbeRoutes(service).add_to(app)
    add_operations(app, service, _custom_handlers(service, settings), {"save": SAVE_RESPONSES})
    MetricRoutes(service).add_to(app)
    app.router.routes.append(Route(McpEndpoint.path, McpEndpoint(app)))
    if proxy is not None:
        app.mount("/proxy", proxy)
    declare_policies(app.routes)
    app.openapi = describe_fields(app)  # type: ignore[method-assign] # FastAPI's documented way to extend it
    return app


def _custom_handlers(service: Service, settings: Settings) -> dict[str, Handler]:
    """Return the handlers of operations whose HTTP shape differs from the contract."""
    handlers = OperationHandlers(service, settings.limits)
    return {name: getattr(handlers, name) for name in vars(OperationHandlers) if name[0] != "_"}


def _operation_id(route: APIRoute) -> str:
    return route.name
