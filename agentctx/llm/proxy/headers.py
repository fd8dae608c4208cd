"""Filter the headers of requests and replies. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from agentctx.errors import UpstreamFailed
from agentctx.llm.proxy.vendors import Headers

INJECTION_HEADER: Final = "X-Agentctx-Injection"
"""Reply header: the id of the receipt of what was injected into the request."""
LEFT_OUT_HEADER: Final = "X-Agentctx-Left-Out"
"""Reply header: why the request went out without context. `refused 422`: the vendor refused it with context,
with that status; `refused before`: it refused such calls before, so they go without for a day; `too large`:
the body has more than 16 MiB or 200,000 values."""

_OURS: Final = b"x-agentctx-"
_HOP_BY_HOP: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
_OF_THE_REQUEST: Final = frozenset({b"host", b"content-length", b"expect"})
"""Set again for the vendor."""
_FIRST_STATUS: Final = 200
_LAST_STATUS: Final = 599
_WITHOUT_BODY: Final = frozenset({204, 304})
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def forwarded(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return a request's headers for the vendor, without hop-by-hop headers, framing and our own headers.

    Blanks around a value, as in a `Bearer` without a key, mean nothing, but our client refuses to send them.
    """
    dropped = _HOP_BY_HOP | _OF_THE_REQUEST | _named_by_connection(headers)
    return [
        (name, value.strip(b" \t"))
        for name, value in headers
        if name not in dropped and not name.startswith(_OURS)
    ]


def returned(status: int, headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return a reply's headers for the client, without hop-by-hop headers.

    The length is kept, because the bytes of the reply are passed on as they are, compressed or not. It is
    dropped where it is not the length of what follows: with chunks, and in a reply without a body.

    Raises:
        UpstreamFailed: the status or a header is invalid in HTTP.
    """
    if not _FIRST_STATUS <= status <= _LAST_STATUS:
        raise UpstreamFailed(f"The vendor sent the invalid HTTP status {status}.")
    lowered = [(name.lower(), value) for name, value in headers]
    if bad := next((name for name, value in lowered if _CONTROL.search(value)), None):
        raise UpstreamFailed(f"The vendor sent a control character in the header {bad.decode('latin-1')}.")
    dropped = _HOP_BY_HOP | _named_by_connection(lowered)
    if status in _WITHOUT_BODY or any(name == b"transfer-encoding" for name, _ in lowered):
        dropped |= {b"content-length"}
    return [(name, value) for name, value in lowered if name not in dropped and not name.startswith(_OURS)]


def readable(headers: Headers) -> Mapping[str, str]:
    """Decode the headers as text; of several with one name, the last counts."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


def _named_by_connection(headers: Headers) -> set[bytes]:
    values = b",".join(value for name, value in headers if name == b"connection")
    return {name.strip().lower() for name in values.split(b",")}
