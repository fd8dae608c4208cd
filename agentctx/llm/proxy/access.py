"""Access over loopback TCP: a token replaces the kernel's identification, and browsers are kept out."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from agentctx.config.bounded_files import read_bounded
from agentctx.errors import AccessDenied, ConfigInvalid, InvalidInput
from agentctx.llm.proxy.runs import Run
from agentctx.llm.proxy.vendors import Headers
from agentctx.llm.scope import NAMESPACE_HEADER, namespaces_in
from agentctx.names import NAMESPACE_RULE, is_namespace

TOKEN_HEADER: Final = "X-Agentctx-Token"  # noqa: S105 - the name of a header
TOKEN_PATH: Final = b"/t/"
"""Prefix of a target that contains the token: `/t/TOKEN/proxy/…`."""
_KEY_HEADERS: Final = (b"authorization", b"x-api-key", b"x-goog-api-key")
"""Headers for the vendor's key, in which programs that do not know agentctx can send the token instead."""
_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]", "agentctx"})
_TOKEN_BYTES: Final = 32
_NAMESPACE_NAME: Final = NAMESPACE_HEADER.lower().encode()


@dataclass
class NamespaceAccess:
    """ASGI middleware: checks that the connection's peer may read the namespaces of the call."""

    app: ASGIApp
    """The application behind the middleware."""
    require: Callable[[Any, str], Awaitable[object]]
    """Raises `AccessDenied` if the peer may not read the namespace."""
    default: str
    """The namespace of a call that names none."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope.get("state", {}).get("peer")
        for namespace in chosen_namespaces(scope["headers"]) or [self.default]:
            if not is_namespace(namespace):
                raise InvalidInput(f"{NAMESPACE_HEADER} names no valid namespace.", hint=NAMESPACE_RULE)
            await self.require(peer, namespace)
        await self.app(scope, receive, send)


@dataclass(repr=False)
class TokenAccess:
    """ASGI middleware: admits requests with the token, all as one peer.

    Refuses everything else: a Host that is not ours (a name made to resolve to us), and any request from a
    web page, which has an Origin or a Sec-Fetch-Site. The token is taken from `X-Agentctx-Token`, from the
    header of the vendor's key, or from the path, where it is removed.
    """

    app: ASGIApp
    """The application behind the middleware."""
    token: str
    """The token in the file."""
    peer: Any
    """The peer of all requests."""
    namespaces: Sequence[str]
    """The allowed namespaces; the first is used for a request that names none."""
    run_of: Callable[[bytes], Run | None] = lambda _: None
    """Returns the run whose token is in a path; the request's state then has it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"]
        require_no_browser(headers)
        inner, has_token = without_token_path(scope, self.token.encode(), self.run_of)
        passed = list(headers) if has_token else without_token(headers, self.token.encode())
        state = {**inner.get("state", {}), "peer": self.peer}
        run = state.get("run")
        passed = with_namespace(passed, self.namespaces, run.namespaces if run else ())
        inner = {**inner, "headers": passed, "state": state}
        try:
            await self.app(inner, receive, send)
        finally:
            # Middleware that counts requests reads the incoming scope.
            scope.update({"route": inner["route"]} if "route" in inner else {})


def require_no_browser(headers: Headers) -> None:
    """Raise `AccessDenied` for a request that a web page in a browser could make."""
    values = {name: value.decode("latin-1") for name, value in headers}
    if b"origin" in values or b"sec-fetch-site" in values or b"referer" in values:
        raise AccessDenied("Requests from web pages are refused.", hint="Send neither Origin nor Referer.")
    host = values.get(b"host", "").rpartition(":")[0] or values.get(b"host", "")
    if host.lower() not in _NAMES:
        raise AccessDenied("The Host header does not name this proxy.", hint="Connect to 127.0.0.1.")


def without_token_path(
    scope: Scope, token: bytes, run_of: Callable[[bytes], Run | None] = lambda _: None
) -> tuple[Scope, bool]:
    """Remove the token from the request's path; also return whether it was there."""
    raw = scope.get("raw_path") or scope["path"].encode()
    if not raw.startswith(TOKEN_PATH):
        return scope, False
    given, slash, rest = raw.removeprefix(TOKEN_PATH).partition(b"/")
    run = None if hmac.compare_digest(given, token) else run_of(given)
    if run is None and not hmac.compare_digest(given, token):
        raise AccessDenied("The token in the path is invalid.", hint="Copy it from the token file again.")
    path, state = slash + rest, {**scope.get("state", {}), "run": run}
    return {**scope, "raw_path": path, "path": path.decode("latin-1"), "state": state}, True


def without_token(headers: Headers, token: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers without the token.

    Raises:
        AccessDenied: no header contains the token.
    """
    ours = TOKEN_HEADER.lower().encode()
    kept = [(name, value) for name, value in headers if not _is_token(name, value, ours, token)]
    if len(kept) == len(headers):
        raise AccessDenied(
            "The token is missing or invalid.",
            hint=f"Send it in {TOKEN_HEADER}; it is in the file named by proxy.tcp_token_file.",
        )
    return kept


def with_namespace(
    headers: Headers, namespaces: Sequence[str], of_run: Sequence[str] = ()
) -> list[tuple[bytes, bytes]]:
    """Return the headers with namespaces that the token is valid for: those of a run, else the first one.

    Raises:
        AccessDenied: the headers name another namespace.
    """
    chosen = chosen_namespaces(headers)
    if any(name not in {*namespaces, *of_run} for name in chosen):
        raise AccessDenied("The token is not valid for this namespace.")
    if chosen:
        return list(headers)
    return [*headers, (_NAMESPACE_NAME, ",".join(of_run or namespaces[:1]).encode())]


def chosen_namespaces(headers: Headers) -> list[str]:
    """Return every namespace that the headers name."""
    lines = (value.decode("latin-1") for name, value in headers if name.lower() == _NAMESPACE_NAME)
    return [namespace for line in lines for namespace in namespaces_in(line)]


def read_token(path: Path) -> str:
    """Read the token from its file, which is created with mode 0600 if missing.

    Raises:
        ConfigInvalid: the file is empty, unreadable, or readable by other users.
    """
    try:
        if not path.exists():
            _make_token(path)
        mode = path.stat().st_mode
        token = read_bounded(path).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"proxy.tcp_token_file: {path} cannot be used ({error}).") from error
    if mode & 0o077:
        raise ConfigInvalid(f"Other users can read {path}.", hint=f"Run `chmod 600 {path}`.")
    if len(token) < _TOKEN_BYTES:
        raise ConfigInvalid(f"{path} contains no token.", hint="Remove the file; a new one is created.")
    return token


def _make_token(path: Path) -> None:
    """Write the file under another name first: after a crash, an empty one would refuse every later start."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _is_token(name: bytes, value: bytes, ours: bytes, token: bytes) -> bool:
    if name != ours and name not in _KEY_HEADERS:
        return False
    scheme, space, rest = value.partition(b" ")
    given = rest if space and scheme.lower() == b"bearer" else value
    return hmac.compare_digest(given.strip(), token)
