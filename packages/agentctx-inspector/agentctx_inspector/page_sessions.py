"""Links to the pages, and the sessions that they begin. No I/O."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from agentctx.service.base import Peer

T = TypeVar("T")

LINK_S: Final = 60.0
"""Seconds for which a link is good, once."""
IDLE_S: Final = 3_600.0
"""Seconds without a request after which a session ends."""
MAX_KEPT: Final = 64
"""Number of links, and of sessions, that are kept; the oldest goes first."""
_SUPERUSER: Final = 0


@dataclass(slots=True)
class PageSession:
    """Requests with its cookie are those of `peer`, who asked for the link."""

    peer: Peer
    browser: int | None
    """The uid of the browser that opened the link; None if the system does not tell."""
    used: float


class PageSessions:
    """Links and sessions in memory: a restart of the daemon ends all. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._links: dict[str, tuple[float, Peer]] = {}
        self._sessions: dict[str, PageSession] = {}

    def new_link(self, peer: Peer) -> str:
        """Return the secret of a link that begins a session of the peer, once and within `LINK_S`."""
        return _keep(self._links, (self._clock() + LINK_S, peer))

    def open(self, link: str, browser: int | None) -> str | None:
        """Return the secret of a new session; None for a used, expired or unknown link.

        Others can read a link from a browser's arguments, so a `browser` of another user gets None and does
        not use it up. Links of root may be opened by the user behind `sudo`.
        """
        until, peer = self._links.get(link, (0.0, None))
        if peer is None or (browser not in {None, peer.uid} and peer.uid != _SUPERUSER):
            return None
        del self._links[link]
        if self._clock() >= until:
            return None
        return _keep(self._sessions, PageSession(peer, browser, self._clock()))

    def peer_of(self, session: str, browser: int | None) -> Peer | None:
        """Return the peer of a session, which this prolongs; None if it has ended or is another user's.

        Servers of other users on this machine may see the cookie: browsers send it to every port.
        """
        found = self._sessions.get(session)
        if found is None or found.browser != browser:
            return None
        if self._clock() >= found.used + IDLE_S:
            del self._sessions[session]
            return None
        found.used = self._clock()
        return found.peer

    def idle_in(self) -> float:
        """Return the seconds until no link and no session is good any more; 0 if none is now."""
        ends = [until for until, _ in self._links.values()]
        ends += [session.used + IDLE_S for session in self._sessions.values()]
        return max(0.0, max(ends, default=0.0) - self._clock())


def _keep(kept: dict[str, T], value: T) -> str:
    if len(kept) >= MAX_KEPT:
        del kept[next(iter(kept))]
    secret = secrets.token_urlsafe(32)
    kept[secret] = value
    return secret
