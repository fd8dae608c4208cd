"""Who may see the pages: a browser with a session, at our own address, sent there by no other page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentctx_inspector.browser_user import NOBODY, browser_of
from agentctx_inspector.page_sessions import PageSessions

OPEN: Final = "/open/"
STATIC: Final = "/static/"
_COMMAND: Final = "Run <code>agentctx ui</code> in a terminal and open the link that it prints."
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer`, browsers would send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


BrowserOf: TypeAlias = Callable[[int, int], int | None]
"""Returns the uid of a browser by its port and ours; None if the system does not tell."""


class PageRefusal(NamedTuple):
    """A reply instead of the page: its status, and why."""

    status: int
    reason: str


def cookie_name(port: int) -> str:
    """Return the name of the session's cookie: all ports of an address share its cookies."""
    return f"agentctx-{port}"


def foreign(method: str, headers: Mapping[bytes, bytes], port: int) -> PageRefusal | None:
    """Refuse a request to another name that leads here, or from a page of another site or port."""
    here = f"127.0.0.1:{port}".encode()
    if headers.get(b"host", b"").lower() != here:
        return PageRefusal(403, f"This address is not http://127.0.0.1:{port}.")
    origin = headers.get(b"origin")
    is_ours = origin == b"http://" + here
    site = headers.get(b"sec-fetch-site", b"same-origin" if is_ours else b"none")
    changes = method not in {"GET", "HEAD"}
    if ((origin is not None or changes) and not is_ours) or site not in {b"same-origin", b"none"}:
        return PageRefusal(403, "Another page has sent this request.")
    return None


def session_in(headers: Mapping[bytes, bytes], port: int) -> str:
    """Return the secret in the session's cookie; empty without one."""
    # Not `http.cookies`: it stops at the first cookie that it does not like, and all ports share theirs.
    cookies = cookie_parser(headers.get(b"cookie", b"").decode("latin-1"))
    return cookies.get(cookie_name(port), "")


class PageAccess:
    """ASGI middleware: opens links, and gives each request of a session its peer.

    Args:
        app: the pages. Requests below `/static/` reach it without a session.
        sessions: links and sessions.
        browser: returns the uid of a browser by its port and ours.
    """

    def __init__(
        self,
        app: ASGIApp,
        sessions: PageSessions,
        browser: BrowserOf = browser_of,
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._browser = browser
        self._browsers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        """By connection: without netlink, as in the sandbox of the service, each look takes milliseconds."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        (_, port), path = scope["server"], scope["path"]
        headers = dict(scope["headers"])
        if refused := foreign(scope["method"], headers, port):
            await _refuse(refused, send)
        elif path.startswith(STATIC):
            await self._app(scope, receive, _with_headers(send, {"Cache-Control": "no-cache"}))
        elif path.startswith(OPEN):
            await self._open(scope, path.removeprefix(OPEN), send)
        else:
            peer = self._sessions.peer_of(session_in(headers, port), self._browser_in(scope))
            if peer is None:
                await _refuse(PageRefusal(401, "This browser has no session, or it has ended."), send)
                return
            scope["state"]["peer"] = replace(peer, via="page")
            await self._app(scope, receive, _with_headers(send))

    async def _open(self, scope: Scope, link: str, send: Send) -> None:
        _, port = scope["server"]
        secret = self._sessions.open(link, self._browser_in(scope)) if scope["method"] == "GET" else None
        if secret is None:
            await _refuse(PageRefusal(410, "This link was used, or is older than a minute."), send)
            return
        cookie = f"{cookie_name(port)}={secret}; Path=/; HttpOnly; SameSite=Strict"
        await _reply(send, 303, b"", {"Location": "/", "Set-Cookie": cookie})

    def _browser_in(self, scope: Scope) -> int | None:
        connection = scope["state"]["connection"]
        if connection in self._browsers:
            return self._browsers[connection]
        found = self._browser(scope["client"][1], scope["server"][1])
        if found is not None and found != NOBODY:
            self._browsers[connection] = found
        return found


def _with_headers(send: Send, own: Mapping[str, str] = {}) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            more = {**_HEADERS, **own}.items()
            lines = [(name.lower().encode(), value.encode()) for name, value in more]
            message["headers"] = [*message["headers"], *lines]
        await send(message)

    return sending


async def _refuse(refusal: PageRefusal, send: Send) -> None:
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>agentctx</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/page.css">'
        f'<main class="refusal"><h1>{escape(refusal.reason)}</h1><p>{_COMMAND}</p></main></html>'
    )
    await _reply(send, refusal.status, page.encode(), {"Content-Type": "text/html; charset=utf-8"})


async def _reply(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    lines = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    lines.append((b"content-length", b"%d" % len(body)))
    guarded = _with_headers(send)
    await guarded({"type": "http.response.start", "status": status, "headers": lines})
    await guarded({"type": "http.response.body", "body": body})
