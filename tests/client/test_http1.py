import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx.client.http1 import MalformedReply, ReplyParser, encode_request
from agentctx.client.transport import HttpReply
from agentctx.errors import InvalidInput

REPLY = b'HTTP/1.1 201 Created\r\nContent-Length: 12\r\nX-Y: z\r\n\r\n{"ok": true}'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


def test_a_request_is_written_with_its_headers_and_length() -> None:
    assert encode_request("POST", "/v1/x?a=1", b"{}", {"X-Y": "z"}) == (
        b"POST /v1/x?a=1 HTTP/1.1\r\nhost: agentctx\r\nX-Y: z\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert encode_request("GET", "/", None, {}) == b"GET / HTTP/1.1\r\nhost: agentctx\r\n\r\n"


@pytest.mark.parametrize("text", ["a\r\nb", "a\nb", "a\rb", "a\r\n"])
def test_line_breaks_in_headers_or_targets_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        encode_request("GET", "/", None, {"X-Y": text})
    with pytest.raises(InvalidInput):
        encode_request("GET", f"/{text}", None, {})


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(1, len(REPLY + CHUNKED) - 1), max_size=12))
def test_replies_are_parsed_however_they_are_split(cuts: set[int]) -> None:
    stream = REPLY + CHUNKED
    # A peer sends the second reply only after the first was read.
    borders = sorted({0, *cuts, len(REPLY), len(stream)})
    parser = ReplyParser()

    fed = [parser.feed(memoryview(stream)[a:b]) for a, b in itertools.pairwise(borders)]

    first, second = [reply for reply in fed if reply is not None]
    assert first == HttpReply(201, {"content-length": "12", "x-y": "z"}, b'{"ok": true}')
    assert (second.status, second.body) == (200, b"onetwo")
    assert parser.is_reusable


def test_an_interim_response_is_skipped() -> None:
    reply = ReplyParser().feed(b"HTTP/1.1 100 Continue\r\n\r\n" + REPLY)

    assert reply is not None
    assert reply.status == 201


@pytest.mark.parametrize("more", [REPLY, b"HTTP/1.1 200", b"nonsense"])
def test_data_after_a_reply_makes_the_connection_unusable(more: bytes) -> None:
    parser = ReplyParser()

    reply = parser.feed(REPLY + more)

    assert reply is not None
    assert reply.body == b'{"ok": true}'
    assert not parser.is_reusable


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_a_reply_may_close_its_connection(reply: bytes) -> None:
    parser = ReplyParser()

    assert parser.feed(reply) is not None
    assert not parser.is_reusable


def test_anything_but_http_is_malformed() -> None:
    with pytest.raises(MalformedReply):
        ReplyParser().feed(b"SSH-2.0-OpenSSH\r\n")
