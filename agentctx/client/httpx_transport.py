"""The daemon's Unix socket through httpx, for who has reason to prefer it: its own tracing or mocking, say.

`Client(transport=HttpxTransport(path))`. It takes several times as long a call as the default transports.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

import httpx

from agentctx.client.http1 import encode_request
from agentctx.client.transport import TIMEOUT_S, HttpReply, closed, dropped, os_error, refusal, too_slow

_ORIGIN = "http://agentctx"
"""HTTP wants a host; the socket decides who answers."""


class HttpxTransport:
    """Keeps `transport.Transport`."""

    def __init__(self, path: Path | str, timeout_s: float = TIMEOUT_S) -> None:
        self._path = Path(path)
        self._timeout_s = timeout_s
        self._closed = False
        self._http = httpx.HTTPTransport(uds=str(path), verify=False, trust_env=False)

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float | None = None,
    ) -> HttpReply:
        if self._closed:
            raise closed()
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        with _translated(self._path, timeout_s):
            response = self._http.handle_request(_request(method, target, body, headers, timeout_s))
            try:
                return _reply(response, _until(deadline, response))
            finally:
                response.close()

    def close(self) -> None:
        self._closed = True
        self._http.close()


class AsyncHttpxTransport:
    """Keeps `transport.AsyncTransport`."""

    def __init__(self, path: Path | str, timeout_s: float = TIMEOUT_S) -> None:
        self._path = Path(path)
        self._timeout_s = timeout_s
        self._closed = False
        self._http = httpx.AsyncHTTPTransport(uds=str(path), verify=False, trust_env=False)

    async def request(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float | None = None,
    ) -> HttpReply:
        if self._closed:
            raise closed()
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        with _translated(self._path, timeout_s):
            async with asyncio.timeout(timeout_s):
                response = await self._http.handle_async_request(
                    _request(method, target, body, headers, timeout_s)
                )
                try:
                    return _reply(response, await response.aread())
                finally:
                    await response.aclose()

    async def close(self) -> None:
        self._closed = True
        await self._http.aclose()


def _request(
    method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
) -> httpx.Request:
    encode_request(method, target, None, headers)  # holds it to what the other transports take
    timeout = httpx.Timeout(timeout_s).as_dict()
    return httpx.Request(
        method, _ORIGIN + target, headers=dict(headers), content=body, extensions={"timeout": timeout}
    )


def _until(deadline: float, response: httpx.Response) -> bytes:
    """The body. httpx bounds each wait by itself; a daemon that drips would never be late."""
    parts: list[bytes] = []
    for part in response.iter_bytes():
        parts.append(part)
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)


def _reply(response: httpx.Response, body: bytes) -> HttpReply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return HttpReply(response.status_code, headers, body)


@contextmanager
def _translated(path: Path, timeout_s: float) -> Iterator[None]:
    """Turn httpx's errors into ours, each saying what to do next."""
    try:
        yield
    except (httpx.TimeoutException, TimeoutError) as error:
        raise too_slow(path, timeout_s) from error
    except httpx.ConnectError as error:
        _close_abandoned(error)
        raise refusal(path, error) from error
    except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
        raise dropped(path) from error


def _close_abandoned(error: BaseException) -> None:
    """Close the socket that httpcore's blocking backend leaves open when its `connect` fails.

    Only its frame still holds it; else every poll for a starting daemon would warn of an unclosed socket.
    """
    cause = os_error(error)
    for frame, _ in walk_tb(cause.__traceback__ if cause else None):
        for value in frame.f_locals.values():
            if isinstance(value, socket.socket):
                value.close()
