"""A stream socket to the daemon, and whether its peer has gone."""

from __future__ import annotations

import select
import socket
from pathlib import Path

from agentctx.client.transport import refusal


def connected(path: Path) -> socket.socket:
    """A connected socket that does not block.

    It connects at once or not at all: waiting for a place in a full backlog would have no deadline.

    Raises:
        AgentctxError: as `transport.refusal` says.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.connect(str(path))
    except OSError as error:
        sock.close()
        raise refusal(path, error) from error
    return sock


class IdleWatch:
    """Tells, without reading, whether an idle connection is still good for a request.

    A quiet one is. Anything to be read from it is its end, or unsolicited bytes.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def is_quiet(self) -> bool:
        return not self._poll.poll(0)
