"""What both clients hold: where the daemon is, how long to wait for it, whose namespace is meant."""

from __future__ import annotations

import os
from base64 import b32encode
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agentctx.client.calls import ApiCall
from agentctx.client.retry import Attempts
from agentctx.client.transport import HttpReply
from agentctx.config.paths import find_socket
from agentctx.errors import DaemonUnreachable, DeadlineExceeded, Unavailable
from agentctx.wire.names import VERSION_HEADER

if TYPE_CHECKING:
    from agentctx.client.options import SearchOptions

UNANSWERED = (DaemonUnreachable, DeadlineExceeded, Unavailable)
"""What a request ends with that no daemon answered."""


class Session:
    """The base of `Client` and `AsyncClient`."""

    def __init__(
        self, socket: Path | str | None, *, timeout_s: float, start_timeout_s: float, namespace: str
    ) -> None:
        self.socket = find_socket() if socket is None else Path(socket)
        self.timeout_s = timeout_s
        self.start_timeout_s = start_timeout_s
        self.namespace = namespace
        self.daemon_version: str | None = None
        """The version of the daemon that answered last."""

    def within(self, timeout_s: float) -> Self:
        """The same client with another timeout: `client.within(2).search("when?")`.

        Both use the same connections; closing either closes both.
        """
        other = copy(self)
        other.timeout_s = timeout_s
        return other

    def _attempts(self, call: ApiCall[Any]) -> Attempts:
        return Attempts(
            repeatable=call.repeatable, is_probe=call.is_probe, start_timeout_s=self.start_timeout_s
        )

    def _timeout_of(self, call: ApiCall[Any]) -> float:
        return self.timeout_s + call.takes_s

    def _choose_namespace(self, options: SearchOptions) -> None:
        """Ask the client's own namespace where the call names none."""
        asked = options.get("namespaces")
        if asked and len(asked) == 1:
            options["namespace"] = asked[0]
            del options["namespaces"]
        elif not asked:
            options.setdefault("namespace", self.namespace)

    def _note(self, reply: HttpReply) -> None:
        self.daemon_version = reply.headers.get(VERSION_HEADER.lower())


def new_idempotency_key() -> str:
    """A key that no other save has: 80 random bits.

    In less than 20 characters the daemon looks for no encoded secrets, which takes a tenth of a save.
    """
    return b32encode(os.urandom(10)).decode().lower()
