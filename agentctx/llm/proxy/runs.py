"""Runs of single programs: where their calls look and, if a user had set a base URL, where they go.

The token of a run that has an upstream is good while its program lives. Others contain their namespaces,
signed, so that they outlive the daemon and the process that began the run, such as an editor's launcher.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import select
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from agentctx.config.outgoing import is_loopback
from agentctx.errors import AccessDenied, InvalidInput, QuotaExceeded
from agentctx.llm.proxy.upstream import require_inside
from agentctx.llm.proxy.vendors import VENDORS
from agentctx.names import NAMESPACE_RULE, is_namespace
from agentctx.service.base import Peer

PATH: Final = "/proxy/run"
MAX_RUNS: Final = 256
_HINT: Final = "Use an https:// URL, or one of this machine, without user name, query and fragment."


class Run(NamedTuple):
    """Where the calls of one program look, and where those to one vendor go. All may be empty."""

    namespaces: tuple[str, ...]
    vendor: str = ""
    base_url: str = ""


class Runs:
    """The runs of programs. One with an upstream belongs to the process that began it, and ends with it.

    `key` signs namespaces. `watch` returns a function that says whether the process with a pid still lives.
    """

    def __init__(
        self, own_port: int, *, key: bytes, watch: Callable[[int], Callable[[], bool]] | None = None
    ) -> None:
        self._own_port = own_port
        self._key = key
        self._watch = watch or watched
        self._runs: dict[str, tuple[Run, Callable[[], bool]]] = {}

    def begin(self, peer: Any, body: bytes) -> str:
        """Begin the run that the body describes (`namespaces`, `vendor`, `url`); return its token.

        Raises:
            AccessDenied: the peer is not a process of the daemon's own user on the Unix socket.
            InvalidInput: a namespace is invalid, the vendor unknown, or the URL must not be an upstream.
        """
        if not isinstance(peer, Peer) or peer.uid != os.getuid() or not peer.pid:
            raise AccessDenied("Only the daemon's own user, on its socket, may begin a run.")
        run = _run_of(body, self._own_port)
        if not run.vendor:
            return _signed(urlsafe_b64encode(",".join(run.namespaces).encode()), self._key).decode()
        self._runs = {token: each for token, each in self._runs.items() if each[1]()}
        if len(self._runs) >= MAX_RUNS:
            raise QuotaExceeded("Too many programs run with an upstream of their own.")
        token = secrets.token_urlsafe(32)
        self._runs[token] = run, self._watch(peer.pid)
        return token

    def find(self, token: bytes) -> Run | None:
        """Return the run with this token; one with an upstream only if its program still lives."""
        names, dot, _ = token.partition(b".")
        if dot and hmac.compare_digest(_signed(names, self._key), token):
            return Run(tuple(urlsafe_b64decode(names).decode().split(",")))
        runs = (each for known, each in self._runs.items() if hmac.compare_digest(known.encode(), token))
        return next((run for run, lives in runs if lives()), None)


def watched(pid: int) -> Callable[[], bool]:
    """Return a function that says whether the process still lives, even if its pid is used again.

    Raises:
        InvalidInput: the process cannot be seen, or this system does not tell.
    """
    try:
        return _Process(os.pidfd_open(pid)).lives
    except (OSError, AttributeError) as error:
        raise InvalidInput("The process that begins the run cannot be seen.") from error


class _Process:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ended = select.poll()
        self._ended.register(descriptor, select.POLLIN)

    def lives(self) -> bool:
        return not self._ended.poll(0)

    def __del__(self) -> None:
        os.close(self._descriptor)


def _signed(names: bytes, key: bytes) -> bytes:
    return names + b"." + hmac.digest(key, names, "sha256").hex().encode()


def _run_of(body: bytes, own_port: int) -> Run:
    try:
        given = json.loads(body)
        named, vendor, url = given["namespaces"], given["vendor"], given["url"]
    except (ValueError, LookupError, TypeError, RecursionError):
        named, vendor, url = None, "", ""
    namespaces = tuple(named) if isinstance(named, list) else ()
    if not namespaces or not all(isinstance(each, str) and is_namespace(each) for each in namespaces):
        raise InvalidInput("A run needs namespaces.", hint=NAMESPACE_RULE)
    if vendor == url == "":
        return Run(namespaces)
    if vendor not in VENDORS or not isinstance(url, str):
        raise InvalidInput("The vendor is unknown.", hint=f"Vendors: {', '.join(VENDORS)}.")
    if problem := _problem_of(url, own_port):
        raise InvalidInput(f"The base URL {problem}.", hint=_HINT)
    require_inside(urlsplit(url).path.encode())
    return Run(namespaces, vendor, url.rstrip("/"))


def _problem_of(url: str, own_port: int) -> str:
    """Return why a URL cannot be an upstream: keys go there, so nobody else may listen on the way."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "is not a valid URL"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "contains characters that no URL has"
    if "@" in parts.netloc or "?" in url or "#" in url:
        return "has a user name, a query or a fragment"
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))):
        return "is neither https nor of this machine"
    return "is the proxy itself" if is_loopback(host) and port == own_port else ""
