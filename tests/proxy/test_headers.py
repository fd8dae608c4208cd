"""Which headers pass through."""

from __future__ import annotations

from agentctx.proxy.headers import forwarded, returned

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


def test_what_the_vendor_knows_reaches_it_in_order() -> None:
    assert forwarded(FORWARDED) == FORWARDED


def test_what_is_of_the_connection_or_ours_stays_here() -> None:
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


def test_replies_keep_all_but_the_connections_headers() -> None:
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
    assert returned([*sent, (b"Connection", b"close"), (b"Transfer-Encoding", b"chunked")]) == kept


def test_a_vendor_cannot_speak_in_our_name() -> None:
    assert returned([(b"X-Agentctx-Injection", b"forged")]) == []
