"""Bad input to a real daemon: a 4xx with a stable code and a helpful sentence; no other client suffers."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.end_to_end.daemon_process import DaemonProcess

CONFIG = """
[embedding]
provider = "fake"
[server]
header_timeout_s = 1.0
body_timeout_s = 1.0
"""
SAVE = {"collection": "observation", "session": "s", "content": "text"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    running = DaemonProcess(tmp_path_factory.mktemp("bad"), config=CONFIG).start()
    yield running
    assert running.stop() == 0
    assert not [line for line in running.log if line.get("level") in ("error", "critical")], running.log


def exchange(daemon: DaemonProcess, request: bytes) -> tuple[int, dict[str, Any]]:
    """Return status and body of the reply to raw bytes, read until the daemon closes the connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(str(daemon.socket))
        connection.sendall(request)
        parts = []
        while part := connection.recv(65_536):
            parts.append(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)


def posted(body: bytes, path: str = "/v1/entries", method: str = "POST") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def entry(**changes: Any) -> bytes:
    return posted(json.dumps({**SAVE, **changes}).encode())


BAD = {
    "empty body": (posted(b""), 400, "invalid_input"),
    "white space": (posted(b" \n "), 400, "invalid_input"),
    "no JSON": (posted(b"hello"), 400, "invalid_input"),
    "null": (posted(b"null"), 400, "invalid_input"),
    "a list": (posted(b"[]"), 400, "invalid_input"),
    "empty content": (entry(content=""), 400, "invalid_input"),
    "blank content": (entry(content=" \n\t\u3000"), 400, "invalid_input"),
    "over-long content": (entry(content="x" * 262_145), 413, "too_large"),
    "NUL": (entry(content="a\x00b"), 400, "invalid_input"),
    "an escaped lone surrogate": (entry(content="a\ud800b"), 400, "invalid_input"),
    "a raw lone surrogate": (
        posted(b'{"collection": "observation", "session": "s", "content": "a\xed\xa0\x80b"}'),
        400,
        "invalid_input",
    ),
    "invalid UTF-8": (posted(b'{"collection": "observation", "content": "\xff"}'), 400, "invalid_input"),
    "unknown collection": (entry(collection="gossip"), 400, "unknown_collection"),
    "unknown category": (
        entry(collection="knowledge", key="k", category="gossip"),
        400,
        "invalid_input",
    ),
    "wrong type": (entry(content=5), 400, "invalid_input"),
    "a number in quotes": (entry(token_count="5"), 400, "invalid_input"),
    "true for a number": (entry(token_count=True), 400, "invalid_input"),
    "unknown field": (entry(surprise=1), 400, "invalid_input"),
    "a field of another collection": (entry(trigger="x"), 400, "invalid_input"),
    "duplicate keys": (
        posted(b'{"collection": "observation", "content": "a", "content": "b"}'),
        400,
        "invalid_input",
    ),
    "NaN": (posted(b'{"query": "x", "max_distance": NaN}', "/v1/search"), 400, "invalid_input"),
    "Infinity": (posted(b'{"query": "x", "max_distance": 1e999}', "/v1/search"), 400, "invalid_input"),
    "a number of 5,000 digits": (
        posted(b'{"query": "x", "limit": ' + b"9" * 5_000 + b"}", "/v1/search"),
        400,
        "invalid_input",
    ),
    "deep nesting": (posted(b"[" * 10_000 + b"]" * 10_000), 400, "invalid_input"),
    "a body over the limit": (posted(b'{"content": "' + b"x" * 1_100_000 + b'"}'), 413, "too_large"),
    "an empty question": (posted(b'{"query": " "}', "/v1/search"), 400, "invalid_input"),
    "a limit of nothing": (posted(b'{"query": "x", "limit": 0}', "/v1/search"), 400, "invalid_input"),
    "a wrong method": (posted(b"", method="PUT"), 405, "method_not_allowed"),
    "a wrong path": (posted(b"{}", "/v1/nothing"), 404, "not_found"),
    "an unknown id": (posted(b"", "/v1/entries/nothing", "DELETE"), 404, "not_found"),
    "half a body": (
        b'POST /v1/entries HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{"coll',
        408,
        "request_timeout",
    ),
    "a head over the limit": (
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        431,
        "too_large",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_explained(name: str, daemon: DaemonProcess) -> None:
    request, status, code = BAD[name]
    answered, body = exchange(daemon, request)
    assert (answered, body["error"]["code"]) == (status, code), body
    assert len(body["error"]["message"]) > 10
    assert "Traceback" not in json.dumps(body)
    good, saved = exchange(daemon, entry(content=f"the neighbour of {name}"))
    assert (good, saved["changed"]) == (201, True)


def test_a_word_of_100_kb_is_saved_and_found(daemon: DaemonProcess) -> None:
    word = "y" * 100_000
    status, saved = exchange(daemon, entry(content=f"{word} tail"))
    assert status == 201
    status, reply = exchange(daemon, posted(json.dumps({"query": "tail"}).encode(), "/v1/search"))
    assert saved["id"] in [hit["id"] for hit in reply["results"]]


@pytest.mark.parametrize(
    "syntax", ["AND", '"', "*", "NEAR(", "-", ":", "a AND", 'a "b', "text : a", "{x}: a"]
)
def test_query_syntax_is_text(syntax: str, daemon: DaemonProcess) -> None:
    status, reply = exchange(daemon, posted(json.dumps({"query": syntax}).encode(), "/v1/search"))
    assert status == 200
    assert isinstance(reply["results"], list)
