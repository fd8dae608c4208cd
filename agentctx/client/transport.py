"""How bytes reach the daemon: HTTP/1.1 over its Unix socket. What both transports promise, and the blocking
one, which alone knows httpx.

A transport knows nothing of entries and questions; anything with these two methods can take its place.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agentctx.errors import AgentctxError, DaemonUnreachable, DeadlineExceeded, Unavailable

if TYPE_CHECKING:
    import httpx

_ORIGIN = "http://agentctx"
"""HTTP wants a host; the socket decides who answers."""


class Reply(NamedTuple):
    """An HTTP answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ConnectionDropped(DaemonUnreachable):
    """The connection ended before the answer came: whether the daemon did the work is unknown."""

    default_hint = "See with `agentctx status` whether the daemon runs, then look before doing it again."


class Transport(Protocol):
    """Sends one request and returns its answer.

    Raises:
        DaemonUnreachable: nobody listens on the socket.
        ConnectionDropped: the connection ended without an answer.
        DeadlineExceeded: no answer in time.
    """

    def request(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Reply: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """The same, awaited."""

    async def request(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Reply: ...

    async def close(self) -> None: ...


class UnixTransport:
    """Blocking HTTP over a Unix socket, with kept connections."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        import httpx

        self._path = path
        self._timeout_s = timeout_s
        self._http = httpx.HTTPTransport(
            uds=str(path),
            verify=False,  # no TLS on a Unix socket; True would read the CA bundle for nothing
            trust_env=False,
        )

    def request(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        with _translated(self._path, self._timeout_s):
            response = self._http.handle_request(_request(method, target, body, headers, self._timeout_s))
            try:
                response.read()
            finally:
                response.close()
        return _reply(response)

    def close(self) -> None:
        self._http.close()


def _request(
    method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
) -> httpx.Request:
    import httpx

    timeout = httpx.Timeout(timeout_s).as_dict()
    return httpx.Request(
        method, _ORIGIN + target, headers=dict(headers), content=body, extensions={"timeout": timeout}
    )


def _reply(response: httpx.Response) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, response.content)


@contextmanager
def _translated(path: Path, timeout_s: float) -> Iterator[None]:
    """Turn httpx's errors into ours, each saying what to do next."""
    import httpx

    try:
        yield
    except httpx.TimeoutException as error:
        raise too_slow(path, timeout_s) from error
    except httpx.ConnectError as error:
        _close_abandoned(error)
        raise refusal(path, error) from error
    except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
        raise ConnectionDropped(f"The daemon on {path} closed the connection without an answer.") from error


def too_slow(path: Path, timeout_s: float) -> DeadlineExceeded:
    """The error for an answer that did not come in time."""
    return DeadlineExceeded(
        f"The daemon on {path} did not answer within {timeout_s:g} s.",
        hint="Give it more time (timeout_s), or see with `agentctx status` what keeps it busy.",
    )


def refusal(path: Path, error: BaseException) -> AgentctxError:
    """The error for a socket that cannot be connected to, with what to do about it."""
    cause = _os_error(error)
    number = cause.errno if cause else None
    if number == errno.EAGAIN:
        return Unavailable(
            f"The daemon on {path} takes no more connections at the moment.", hint="Try again in a second."
        )
    if number in {errno.EACCES, errno.EPERM}:
        return DaemonUnreachable(
            f"This user may not connect to {path}: permission denied.",
            hint="Run as the daemon's user, or let it share the socket: server.socket_mode and socket_group.",
        )
    reasons = {
        errno.ENOENT: "there is no such socket",
        errno.ECONNREFUSED: "the socket is there, but its daemon is gone",
    }
    reason = reasons.get(number or 0, str(error) or "the connection failed")
    return DaemonUnreachable(f"No daemon answers on {path}: {reason}.")


def _os_error(error: BaseException | None) -> OSError | None:
    """The operating system's error behind a chain of exceptions."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def _close_abandoned(error: BaseException) -> None:
    """Close the socket that httpcore's blocking backend leaves open when its `connect` fails.

    Only its frame still holds it; else every poll for a starting daemon would warn of an unclosed socket.
    """
    cause = _os_error(error)
    for frame, _ in walk_tb(cause.__traceback__ if cause else None):
        for value in frame.f_locals.values():
            if isinstance(value, socket.socket):
                value.close()
