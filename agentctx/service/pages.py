"""The operation that opens pages in a browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agentctx import wire
from agentctx.errors import Unavailable
from agentctx.service import audit_notes as notes
from agentctx.service import guard_rules as rules
from agentctx.service.access.policy import MEMBER
from agentctx.service.base import Peer
from agentctx.service.operations import Operation


@dataclass
class Pages:
    """`link` listens on 127.0.0.1 and makes a link for a peer; it is None without a server of pages."""

    link: Callable[[Peer], Awaitable[wire.PageLink]] | None = None

    @Operation("POST", "/ui", MEMBER, rules.as_member, audit=notes.opened_page)
    async def open_page(self, peer: Peer) -> wire.PageLink:
        """Return a link that opens pages on the memory in a browser on the daemon's machine, with the rights
        of the caller. It works once, within a minute.
        """
        if self.link is None:
            raise Unavailable("This daemon serves no pages.", hint="Start it with `agentctx serve`.")
        return await self.link(peer)
