"""Which headers pass through, in both directions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentctx.proxy.vendors import Headers

INJECTION_HEADER: Final = "X-Agentctx-Injection"
"""On a reply: the id of the receipt of what was put into its request."""

_OURS: Final = b"x-agentctx-"
_HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_OF_THE_REQUEST: Final = frozenset({b"host", b"content-length", b"expect"})
"""Said anew for the vendor."""


def forwarded(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers of a request that the vendor gets: all but the connection's, the framing and our own."""
    dropped = _HOP_BY_HOP | _OF_THE_REQUEST | _named_by_connection(headers)
    return [(name, value) for name, value in headers if name not in dropped and not name.startswith(_OURS)]


def returned(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers of a reply that the client gets: all but the connection's.

    The length stays: the bytes of the reply are passed on as they are, compressed or not.
    """
    lowered = [(name.lower(), value) for name, value in headers]
    dropped = _HOP_BY_HOP | _named_by_connection(lowered)
    return [(name, value) for name, value in lowered if name not in dropped and not name.startswith(_OURS)]


def readable(headers: Headers) -> Mapping[str, str]:
    """Headers as text; of several with one name, the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


def _named_by_connection(headers: Headers) -> set[bytes]:
    values = b",".join(value for name, value in headers if name == b"connection")
    return {name.strip().lower() for name in values.split(b",")}
