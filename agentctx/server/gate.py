"""The gate before every route: without a grant, callers only learn whether the daemon is up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentctx.errors import AccessDenied, AgentctxError
from agentctx.server.peer import peer_in
from agentctx.server.quota_gate import QuotaGate
from agentctx.server.request_context import VersionPolicy
from agentctx.server.strict_route import StrictRoute
from agentctx.service.access.control import ADMIN_HINT, GRANT_HINT, METRICS_HINT, AccessControl
from agentctx.service.access.grants import NO_RIGHTS, Rights
from agentctx.service.access.policy import DAEMON, METRICS, PATHS, PROBES, Policy

_BRIEF: Final[Mapping[bool, bytes]] = {True: b'{"status":"ok"}', False: b'{"status":"unavailable"}'}


class RouteWithoutPolicy(AgentctxError):
    """A route has no access policy."""


class AccessGate:
    """ASGI middleware below `RequestContext`, which turns its exceptions into replies.

    The guard checks what a peer may do in a namespace. `quotas` counts all requests but probes; None: nobody
    has quotas.
    """

    def __init__(self, app: ASGIApp, access: AccessControl, quotas: QuotaGate | None = None) -> None:
        self._app = app
        self._access = access
        self._quotas = quotas

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        rights = await rights_in(scope, self._access)
        path = scope["path"]
        if path in PROBES:
            await self._app(scope, receive, send if rights.is_admin else _quietly(send))
            return
        if self._quotas is not None and (peer := peer_in(scope)) is not None:
            await self._quotas.count(scope, peer, rights)
        require_entry(rights, PATHS.get(path))
        await self._app(scope, receive, send)


def version_policy(access: AccessControl) -> VersionPolicy:
    """Return the function that decides who sees the version: peers with rights, but on probes only admins."""

    async def may_show_version(scope: Scope) -> bool:
        rights = await rights_in(scope, access)
        return rights.is_admin if scope["path"] in PROBES else bool(rights)

    return may_show_version


async def rights_in(scope: Scope, access: AccessControl) -> Rights:
    """Return the rights of the connection's peer; none if the kernel did not identify it."""
    peer = peer_in(scope)
    return NO_RIGHTS if peer is None else await access.rights_of(peer)


def require_entry(rights: Rights, policy: Policy | None) -> None:
    """Raise `AccessDenied` if the peer has no rights, or may not use this plain route."""
    if policy == METRICS and rights.of_metrics:
        return
    if not rights:
        raise AccessDenied("Permission denied: you have no grant on this daemon.", hint=GRANT_HINT)
    if policy in {DAEMON, METRICS} and not rights.is_admin:
        hint = METRICS_HINT if policy == METRICS else ADMIN_HINT
        raise AccessDenied("Permission denied: only admins of the daemon may do that.", hint=hint)


def policy_of(route: BaseRoute) -> Policy:
    """Return the policy of a route. Raises `RouteWithoutPolicy`, whose hint says where to add it."""
    if isinstance(route, StrictRoute):
        return route.operation.policy
    path = route.path if isinstance(route, Route | Mount) else repr(route)
    if path not in PATHS:
        raise RouteWithoutPolicy(
            f"The route {path!r} has no policy.", hint="Add it to PATHS in agentctx/service/access/policy.py."
        )
    return PATHS[path]


def _quietly(send: Send) -> Send:
    """Replace the reply by up or down, without the reason."""
    status = 0

    async def quiet(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            return
        if message.get("more_body"):
            return
        body = _BRIEF[status < 400]
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return quiet
