"""The rights of a connecting user: principals and grants together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from agentctx.access.grants import ALL, Grant, Grants, Right, Rights
from agentctx.access.principals import Principals
from agentctx.config.access import AccessSettings
from agentctx.config.accounts import overflow_id
from agentctx.errors import AccessDenied

ROOT: Final = 0
GRANT_HINT: Final = "Ask an operator for a grant: sudo agentctx access grant USER NAMESPACE"
ADMIN_HINT: Final = "Run it with sudo, or ask an operator for a grant of the right admin in all namespaces."


class Credentials(Protocol):
    """What the kernel says of the process that connected."""

    @property
    def uid(self) -> int: ...

    @property
    def gid(self) -> int: ...


class AccessControl:
    """Says what a peer may do. The daemon's own user and root may do everything, without any config."""

    def __init__(
        self,
        settings: AccessSettings,
        *,
        owners: Iterable[int] | None = None,
        principals: Principals | None = None,
    ) -> None:
        """`owners` stand in for the daemon's own user and root, `principals` for the system's accounts."""
        self._owners = default_owners() if owners is None else frozenset(owners)
        self._principals = principals or Principals()
        self._settings = settings
        self._grants = _grants(settings, self._owners)
        self._listeners: list[Callable[[frozenset[int]], None]] = []

    def reconfigure(self, settings: AccessSettings) -> None:
        """Use these grants from now on, and notify subscribers when they differ."""
        is_other = settings != self._settings
        self._settings = settings
        self._grants = _grants(settings, self._owners)
        if is_other:
            for listener in self._listeners:
                listener(self._owners)

    def tell_changed(self, listener: Callable[[frozenset[int]], None]) -> None:
        """Tell a listener when grants change; it gets the uids that may do everything as before."""
        self._listeners.append(listener)

    async def rights_of(self, peer: Credentials) -> Rights:
        """What the peer may do, by the kernel's word alone."""
        if peer.uid in self._owners:
            return ALL
        principal = self._principals.known(peer.uid, peer.gid)
        if principal is None:
            principal = await asyncio.to_thread(self._principals.look_up, peer.uid, peer.gid)
        return self._grants.of(principal)

    async def require(self, peer: Credentials, namespace: str, right: Right) -> Rights:
        """The peer's rights, if they are enough for a namespace that it named.

        Raises:
            AccessDenied: they are not.
        """
        rights = await self.rights_of(peer)
        if rights.on(namespace) < right:
            raise denied(right, namespace)
        return rights

    async def require_admin(self, peer: Credentials) -> None:
        """Raises `AccessDenied` for a peer that is not admin of everything."""
        rights = await self.rights_of(peer)
        if not rights.is_admin:
            raise AccessDenied("Permission denied: only admins of the daemon may do that.", hint=ADMIN_HINT)


def default_owners() -> frozenset[int]:
    """The daemon's own user and root, unless the kernel cannot distinguish them from strangers."""
    return frozenset({ROOT, os.geteuid()}) - {overflow_id("uid")}


def denied(right: Right, namespace: str) -> AccessDenied:
    """The error for a namespace that was named and is not granted, whether it exists or not."""
    return AccessDenied(
        f"Permission denied: you may not {right.name.lower()} in the namespace {namespace[:128]!r}.",
        hint=f"Name another one (--namespace, AGENTCTX_NAMESPACE). {GRANT_HINT}",
    )


def _grants(settings: AccessSettings, owners: frozenset[int]) -> Grants:
    return Grants(
        (
            Grant(uid=each.uid, gid=each.gid, namespaces=each.namespaces, right=Right[each.rights.upper()])
            for each in settings.grants
        ),
        owners=owners,
    )
