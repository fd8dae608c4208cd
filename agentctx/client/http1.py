"""HTTP/1.1 for both transports: encodes requests and parses replies. No I/O.

The parser is httptools, which the daemon uses too.
"""

from __future__ import annotations

from collections.abc import Mapping

import httptools

from agentctx.client.transport import HttpReply
from agentctx.errors import InvalidInput


class MalformedReply(Exception):
    """The bytes received are not an HTTP/1.1 reply."""


def encode_request(method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
    """Return the bytes of a request. HTTP requires a host header; the socket decides who answers.

    Raises:
        InvalidInput: a header or the target contains a line break, which would begin another line.
    """
    lines = [f"{method} {target} HTTP/1.1", "host: agentctx"]
    for name, value in headers.items():
        lines.append(f"{name}: {value}")
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    head = "\r\n".join(lines)
    breaks = len(lines) - 1
    if head.count("\r") != breaks or head.count("\n") != breaks:
        raise InvalidInput("A header or URL contains a line break.")
    return b"%b\r\n\r\n%b" % (head.encode("latin-1", "replace"), body or b"")


class ReplyParser:
    """Parses the replies of one connection in turn. httptools calls the `on_…` methods."""

    def __init__(self) -> None:
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._replies: list[HttpReply] = []
        self.is_reusable = True
        """Whether another request may follow on this connection."""
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes | memoryview) -> HttpReply | None:
        """Return the reply once its last byte has arrived. Unsolicited bytes after it spoil the connection.

        Raises:
            MalformedReply: the data is not HTTP, or not a reply.
        """
        replies: list[HttpReply] = []
        self._replies = replies
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not replies:
                raise MalformedReply(str(error)) from error
            self.is_reusable = False
        return replies[0] if replies else None

    def on_message_begin(self) -> None:
        if self._replies:
            self.is_reusable = False
        self._headers = {}
        self._body = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # a 1xx only announces the reply
            self._replies.append(HttpReply(status, self._headers, b"".join(self._body)))
            if not self._parser.should_keep_alive():  # ask now: the parser forgets it with the message
                self.is_reusable = False
