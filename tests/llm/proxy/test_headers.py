"""Which headers pass through."""

from __future__ import annotations

import pytest

from agentctx.errors import UpstreamFailed
from agentctx.llm.proxy.headers import forwarded, returned

FORWARDED = [
    (b"authorization", b"Bearer k"),
    (b"x-api-key", b"k"),
    (b"x-goog-api-key", b"k"),
    (b"anthropic-version", b"2023-06-01"),
    (b"anthropic-beta", b"one,two"),
    (b"openai-organization", b"org"),
    (b"idempotency-key", b"i"),
    (b"x-stainless-lang", b"python"),
    (b"x-claude-code-session-id", b"s"),
    (b"user-agent", b"SDK/1"),
    (b"accept-encoding", b"gzip"),
    (b"content-type", b"application/json"),
    (b"content-encoding", b"gzip"),
]


def test_end_to_end_headers_reach_the_vendor_in_order() -> None:
    assert forwarded(FORWARDED) == FORWARDED


def test_hop_by_hop_headers_and_our_own_are_not_forwarded() -> None:
    dropped = [
        (b"host", b"agentctx"),
        (b"content-length", b"2"),
        (b"connection", b"keep-alive, X-Hop"),
        (b"x-hop", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"te", b"trailers"),
        (b"upgrade", b"h2c"),
        (b"expect", b"100-continue"),
        (b"x-agentctx-session", b"s"),
        (b"x-agentctx-token", b"t"),
    ]
    assert forwarded([*dropped, *FORWARDED]) == FORWARDED


def test_replies_keep_all_but_hop_by_hop_headers() -> None:
    kept = [
        (b"content-type", b"text/event-stream"),
        (b"content-length", b"12"),
        (b"content-encoding", b"gzip"),
        (b"x-request-id", b"r"),
        (b"retry-after", b"3"),
        (b"anthropic-ratelimit-requests-remaining", b"1"),
        (b"set-cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
    ]
    sent = [(name.title(), value) for name, value in kept]
    assert returned(200, [*sent, (b"Connection", b"close"), (b"Keep-Alive", b"5")]) == kept


@pytest.mark.parametrize(
    ("status", "more"), [(200, [(b"Transfer-Encoding", b"chunked")]), (204, []), (304, [])]
)
def test_a_length_that_is_not_that_of_the_body_is_dropped(
    status: int, more: list[tuple[bytes, bytes]]
) -> None:
    assert returned(status, [(b"Content-Length", b"5"), *more]) == []


@pytest.mark.parametrize("status", [100, 101, 199, 600, 999])
def test_a_status_that_http_does_not_have_is_refused(status: int) -> None:
    with pytest.raises(UpstreamFailed, match=str(status)):
        returned(status, [])


@pytest.mark.parametrize("value", [b"a\x01", b"a\x7f", b"a\x00b", b"a\rb"])
def test_control_characters_are_refused(value: bytes) -> None:
    with pytest.raises(UpstreamFailed, match="header x"):
        returned(200, [(b"X", value)])


def test_a_vendor_cannot_send_our_headers() -> None:
    assert returned(200, [(b"X-Agentctx-Injection", b"forged")]) == []
