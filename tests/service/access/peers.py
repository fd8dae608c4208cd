"""Users of an imaginary machine, their grants, and requests in their names."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from agentctx.config.access import AccessSettings
from agentctx.service.access.control import AccessControl
from agentctx.service.access.principals import Principals
from agentctx.service.base import Peer

NOBODY = 65_534
_GROUP = 7_001

PEERS = {
    "owner": Peer(pid=1, uid=os.geteuid(), gid=os.getegid()),
    "root": Peer(pid=1, uid=0, gid=0),
    "admin": Peer(pid=1, uid=7_010, gid=7_010),
    "reader": Peer(pid=1, uid=7_011, gid=7_011),
    "writer": Peer(pid=1, uid=7_012, gid=7_012),
    "namespace admin": Peer(pid=1, uid=7_013, gid=7_013),
    "reader by group": Peer(pid=1, uid=7_014, gid=7_014),
    "outsider": Peer(pid=1, uid=7_015, gid=7_015),
    "monitor": Peer(pid=1, uid=7_018, gid=7_018),
    "stranger": Peer(pid=1, uid=7_016, gid=7_016),
    "nobody": Peer(pid=1, uid=NOBODY, gid=NOBODY),
    "no account": Peer(pid=1, uid=7_017, gid=_GROUP),
}
_NO_ACCOUNT = {7_017}


def groups_of(uid: int) -> frozenset[int] | None:
    if uid in _NO_ACCOUNT:
        return None
    return frozenset({uid, _GROUP} if uid == 7_014 else {uid})


def grant(rights: str, *namespaces: str, **who: int) -> dict[str, Any]:
    return {**who, "namespaces": namespaces, "rights": rights}


GRANTS = [
    grant("admin", "*", uid=7_010),
    grant("read", "default", uid=7_011),
    grant("write", "default", uid=7_012),
    grant("admin", "default", uid=7_013),
    grant("read", "def*", gid=_GROUP),
    grant("admin", "other", uid=7_015),
    grant("metrics", uid=7_018),
]


def access_control(*grants: dict[str, Any], clock: Any = lambda: 0.0) -> AccessControl:
    """Return the control of these grants (default: `GRANTS`), with the users above."""
    settings = AccessSettings.model_validate({"grants": grants or GRANTS})
    return AccessControl(settings, principals=Principals(groups_of, overflow_uid=NOBODY, clock=clock))


class RequestsAs:
    """The application as one peer sees it, as if the kernel had named that peer."""

    def __init__(self, app: ASGIApp, peer: Peer | None) -> None:
        self._app = app
        self._peer = peer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "state": {"peer": self._peer}}, receive, send)


@asynccontextmanager
async def client_of(app: ASGIApp, peer: Peer | None) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(RequestsAs(app, peer), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://agentctx", trust_env=False) as client:
        yield client
