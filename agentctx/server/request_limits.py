"""The limits of a request's head and body, and the replies if they are exceeded. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus

import httptools

from agentctx.config.schema import ServerSettings
from agentctx.errors import AgentctxError, InvalidInput, OutOfMemory, RequestTimeout, TooLarge, UpgradeRefused
from agentctx.server.errors import STATUS, error_json, retry_after
from agentctx.server.request_context import new_request_id
from agentctx.wire import REQUEST_ID_HEADER

_CODING = b"transfer-encoding"
_VERSIONS = frozenset({"1.0", "1.1"})
_PROXIED = re.compile(rb"(/t/[^/]+)?/proxy/")
"""Matches calls through the proxy, also with the port's token in the path."""


class HeadTooLarge(TooLarge):
    """The request line and the headers are over `max_header_bytes`."""


def check_head(
    url: bytes, headers: Sequence[tuple[bytes, bytes]], http_version: str, settings: ServerSettings
) -> None:
    """Raise `HeadTooLarge`, `TooLarge` for the announced body, or `InvalidInput` for another version of HTTP
    or the wrong number of Host headers. Names are in lower case; the parser refuses conflicting lengths.
    """
    if http_version not in _VERSIONS:  # the parser reads a request line without a version as HTTP/0.9
        raise InvalidInput("Only HTTP/1.1 is supported.", hint="Use an HTTP client library, or curl.")
    if len(url) + sum(len(name) + len(value) + 4 for name, value in headers) > settings.max_header_bytes:
        raise head_too_large(settings)
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (hosts == 0 and http_version != "1.0"):
        raise InvalidInput("The request needs exactly one Host header.", hint="Any name will do.")
    _check_coding([value for name, value in headers if name == _CODING], headers, http_version)
    if (announced_body(headers) or 0) > (maximum := largest_body(url, settings)):
        raise body_too_large(maximum)


def _check_coding(codings: Sequence[bytes], headers: Sequence[tuple[bytes, bytes]], version: str) -> None:
    """Allow `chunked`, once and alone: the parser would skip any other coding before it (RFC 9112, 6.1)."""
    if not codings:
        return
    if version == "1.0" or any(name == b"content-length" for name, _ in headers):
        raise InvalidInput(
            "Transfer-Encoding is not allowed in HTTP/1.0, nor beside Content-Length.",
            hint="Use an HTTP client library, or curl.",
        )
    if [value.strip(b" \t").lower() for value in codings] != [b"chunked"]:
        raise InvalidInput(
            "The only supported transfer coding is chunked, once.", hint="Send the body with Content-Length."
        )


def announced_body(headers: Sequence[tuple[bytes, bytes]]) -> int | None:
    """Return the announced size of the body in bytes; None if it is chunked."""
    if any(name == _CODING for name, _ in headers):
        return None
    return int(next((value for name, value in headers if name == b"content-length"), b"0"))


def largest_body(url: bytes, settings: ServerSettings) -> int:
    """Return the maximum body size of a request to this target; prompts may contain pictures."""
    return settings.max_proxy_body_bytes if _PROXIED.match(url) else settings.max_body_bytes


def refusal(error: AgentctxError) -> bytes:
    """Return the complete reply, after which the connection closes."""
    status = HTTPStatus(431 if isinstance(error, HeadTooLarge) else STATUS[error.code])
    request_id = new_request_id()
    body = error_json(error, request_id)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "content-type: application/json\r\n"
        f"content-length: {len(body)}\r\n"
        f"{REQUEST_ID_HEADER.lower()}: {request_id}\r\n"
        + "".join(f"{name.lower()}: {value}\r\n" for name, value in _extra_headers(error).items())
        + "connection: close\r\n\r\n"
    )
    return head.encode() + body


def _extra_headers(error: AgentctxError) -> dict[str, str]:
    return {"Upgrade": "HTTP/1.1"} if isinstance(error, UpgradeRefused) else retry_after(error)


def reason(error: httptools.HttpParserError) -> AgentctxError:
    """Return our error that a callback raised and the parser wrapped, or a new one for malformed HTTP."""
    if isinstance(error.__context__, AgentctxError):
        return error.__context__
    if isinstance(error.__context__, MemoryError):
        return OutOfMemory("The daemon has no memory left for this request.")
    return InvalidInput("The request is not valid HTTP/1.1.", hint="Use an HTTP client library, or curl.")


def cut_off() -> InvalidInput:
    return InvalidInput("The request ended before its body did.", hint="Send exactly Content-Length bytes.")


def head_too_large(settings: ServerSettings) -> HeadTooLarge:
    return HeadTooLarge(
        f"The request head is larger than {settings.max_header_bytes} bytes.",
        hint="Send long texts in the body; the limit is server.max_header_bytes.",
    )


def body_too_large(maximum: int) -> TooLarge:
    return TooLarge(
        f"The request body is larger than {maximum} bytes.",
        hint="Send several requests; the limits are server.max_body_bytes and server.max_proxy_body_bytes.",
    )


def other_protocol(headers: Sequence[tuple[bytes, bytes]]) -> AgentctxError:
    """Return the error for leaving HTTP. Only on 426 does Codex fall back from WebSocket at once."""
    message = "Only HTTP/1.1 is supported."
    if any(name == b"upgrade" for name, _ in headers):
        return UpgradeRefused(message, hint="Do not send an Upgrade header.")
    return InvalidInput(message, hint="Do not send CONNECT.")


def too_slow(part: str, seconds: float) -> RequestTimeout:
    return RequestTimeout(
        f"The request {part} was not complete within {seconds:g} s.", hint="Send the request in one go."
    )
