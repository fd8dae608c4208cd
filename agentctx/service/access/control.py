"""The rights of a connecting user, from principals and grants."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Final

from agentctx.config.access import AccessSettings
from agentctx.config.accounts import overflow_id
from agentctx.errors import AccessDenied
from agentctx.names import readable
from agentctx.service.access import grants
from agentctx.service.access.grants import ALL_RIGHTS, Grant, Right, Rights
from agentctx.service.access.principals import Principals
from agentctx.service.base import Peer

ROOT: Final = 0
GRANT_HINT: Final = "Ask an operator for a grant: sudo agentctx access grant USER NAMESPACE"
ADMIN_HINT: Final = "Run it with sudo, or ask an operator for the admin right in all namespaces."

METRICS_HINT: Final = "Run it with sudo, or ask an operator: sudo agentctx access grant USER --metrics"


class AccessControl:
    """Decides what a peer may do. The daemon's own user and root may do everything without any config."""

    def __init__(
        self,
        settings: AccessSettings,
        *,
        owners: Iterable[int] | None = None,
        principals: Principals | None = None,
    ) -> None:
        """`owners` replaces the daemon's own user and root, `principals` the system's accounts."""
        self._owners = default_owners() if owners is None else frozenset(owners)
        self._principals = principals or Principals()
        self._settings = settings
        self._grants = _grants(settings)
        self._listeners: list[Callable[[frozenset[int]], None]] = []

    def reconfigure(self, settings: AccessSettings) -> None:
        """Replace the grants, and notify the listeners if they have changed."""
        is_other = settings != self._settings
        self._settings = settings
        self._grants = _grants(settings)
        if is_other:
            for listener in self._listeners:
                listener(self._owners)

    def on_grants_changed(self, listener: Callable[[frozenset[int]], None]) -> None:
        """Register a listener for changed grants, called with the uids that may still do everything."""
        self._listeners.append(listener)

    async def rights_of(self, peer: Peer) -> Rights:
        """Return the rights of the peer, who is identified only by the kernel's credentials."""
        if peer.uid in self._owners:
            return ALL_RIGHTS
        principal = self._principals.known(peer.uid, peer.gid)
        if principal is None:
            principal = await asyncio.to_thread(self._principals.look_up, peer.uid, peer.gid)
        return grants.rights_of(principal, self._grants)

    async def require(self, peer: Peer, namespace: str, right: Right) -> Rights:
        """Return the peer's rights if they include this right in the namespace.

        Raises:
            AccessDenied: they do not.
        """
        rights = await self.rights_of(peer)
        if rights.on(namespace) < right:
            raise denied(right, namespace)
        return rights

    async def require_admin(self, peer: Peer) -> None:
        """Raise `AccessDenied` unless the peer is an admin of the daemon."""
        rights = await self.rights_of(peer)
        if not rights.is_admin:
            raise AccessDenied("Permission denied: only admins of the daemon may do that.", hint=ADMIN_HINT)


def default_owners() -> frozenset[int]:
    """Return the uids of the daemon's own user and root, except the overflow uid, which strangers share."""
    return frozenset({ROOT, os.geteuid()}) - {overflow_id("uid")}


def denied(right: Right, namespace: str) -> AccessDenied:
    """Return the error for a namespace without a grant, whether the namespace exists or not."""
    shown = readable(namespace[:128])
    return AccessDenied(
        f"Permission denied: you may not {right.name.lower()} in the namespace {shown!r}.",
        hint=f"Name another one (--namespace, AGENTCTX_NAMESPACE). {GRANT_HINT}",
    )


def _grants(settings: AccessSettings) -> list[Grant]:
    return [
        Grant(uid=each.uid, gid=each.gid, of_metrics=True)
        if each.rights == "metrics"
        else Grant(uid=each.uid, gid=each.gid, namespaces=each.namespaces, right=Right[each.rights.upper()])
        for each in settings.grants
    ]
