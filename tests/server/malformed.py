"""Malformed or ambiguous requests as bytes: each is refused with 400 and does nothing.

If two parsers read a request differently, requests can be smuggled, or one text is checked and another is
stored. So whatever the grammars of HTTP (RFC 9112) and JSON (RFC 8259) do not allow, or leave open, is
refused. The parser is lenient in two harmless cases: several spaces in a request line, which RFC 9112 allows,
and RTSP/1.0 instead of HTTP/1.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

SEARCH: Final = b'{"query":"a"}'
GOOD: Final = b"POST /v1/search HTTP/1.1\r\nHost: a\r\nContent-Length: 13\r\n\r\n" + SEARCH
_AFTER: Final = b"Content-Length: 13\r\n\r\n" + SEARCH


def posted(body: bytes, *, path: bytes = b"/v1/search") -> bytes:
    """Return a request with a `Content-Length`, whose reply ends the connection."""
    head = b"POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    return head % (path, len(body)) + body


def with_header(line: bytes) -> bytes:
    """Return a search with one more header line, given without its line break."""
    return b"POST /v1/search HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n" + _AFTER


def in_chunks(rest: bytes, *, coding: bytes = b"Transfer-Encoding: chunked") -> bytes:
    """Return a search whose body is given as raw chunks."""
    return b"POST /v1/search HTTP/1.1\r\nHost: a\r\n" + coding + b"\r\n\r\n" + rest


_WHOLE: Final = b"d\r\n" + SEARCH + b"\r\n0\r\n\r\n"


def _request_lines() -> Iterator[tuple[str, bytes]]:
    lines = {
        "no version": b"POST /v1/search",
        "no target": b"POST HTTP/1.1",
        "a leading space": b" POST /v1/search HTTP/1.1",
        "a space in the target": b"POST /v1/sea rch HTTP/1.1",
        "a tab between": b"POST\t/v1/search\tHTTP/1.1",
        "a word after": b"POST /v1/search HTTP/1.1 x",
        "lower-case protocol": b"POST /v1/search http/1.1",
        "HTTP/0.9": b"POST /v1/search HTTP/0.9",
        "HTTP/1.2": b"POST /v1/search HTTP/1.2",
        "HTTP/2.0": b"POST /v1/search HTTP/2.0",
        "HTTP/1.10": b"POST /v1/search HTTP/1.10",
        "HTTP/01.1": b"POST /v1/search HTTP/01.1",
        "HTTP/1,1": b"POST /v1/search HTTP/1,1",
        "another protocol": b"POST /v1/search FTP/1.1",
        "lower-case method": b"post /v1/search HTTP/1.1",
        "unknown method": b"FETCH /v1/search HTTP/1.1",
        "no method": b"/v1/search HTTP/1.1",
        "a NUL in the target": b"POST /v1/se\x00arch HTTP/1.1",
        "a DEL in the target": b"POST /v1/se\x7farch HTTP/1.1",
        "a control character in the target": b"POST /v1/se\x01arch HTTP/1.1",
        "raw UTF-8 in the target": "POST /v1/sé HTTP/1.1".encode(),
        "a carriage return in the target": b"POST /v1/se\rarch HTTP/1.1",
        "an escaped NUL in the path": b"POST /v1/entries/a%00b HTTP/1.1",
        "an escaped NUL in the query": b"POST /v1/search?a=%00 HTTP/1.1",
        "an escape that is not UTF-8 in the path": b"POST /v1/entries/%ff HTTP/1.1",
        "an escape that is not UTF-8 in the query": b"POST /v1/search?a=%c0%af HTTP/1.1",
        "an escaped surrogate": b"POST /v1/entries/%ed%a0%80 HTTP/1.1",
        "CONNECT": b"CONNECT a:80 HTTP/1.1",
        "an unknown parameter": b"POST /v1/search?surprise=1 HTTP/1.1",
    }
    for name, line in lines.items():
        yield f"request line: {name}", line + b"\r\nHost: a\r\nConnection: close\r\n" + _AFTER
    for name, ending in {"line feeds only": b"\n", "carriage returns only": b"\r"}.items():
        yield f"request line: {name}", GOOD.replace(b"\r\n", ending)
    yield "request line: a bare line feed after it", GOOD.replace(b"1.1\r\n", b"1.1\n")
    yield "request line: the HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield "request line: TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40)
    yield "request line: noise", bytes(range(256))
    yield "request line: SOCKS", b"\x05\x01\x00" + bytes(20)
    yield "request line: the PROXY protocol", b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n" + GOOD


def _headers() -> Iterator[tuple[str, bytes]]:
    lines = {
        "no colon": b"nonsense",
        "no name": b": x",
        "a space before the colon": b"X : y",
        "a tab before the colon": b"X\t: y",
        "a space in the name": b"X Y: z",
        "folded": b"X: a\r\n b",
        "folded with a tab": b"X: a\r\n\tb",
        "folded immediately": b"X:\r\n b",
        "a bare line feed": b"X: a\nY: b",
        "a bare carriage return": b"X: a\rY: b",
        "a NUL in the value": b"X: a\x00b",
        "a NUL in the name": b"X\x00: a",
        "a control character in the value": b"X: a\x01b",
        "a DEL in the value": b"X: a\x7fb",
        "a control character in the name": b"X\x01: a",
        "a name with a byte above ASCII": b"X\xe9: a",
        "a name in brackets": b"(X): a",
        "a name with a slash": b"X/Y: a",
        "a name in quotes": b'"X": a',
        "a name with a comma": b"X,Y: a",
        "a second Host": b"Host: b",
        "a second Host, the same": b"Host: a",
        "a second Host in another case": b"hOsT: b",
        "two Idempotency-Keys": b"Idempotency-Key: a\r\nIdempotency-Key: b\r\nConnection: close",
        "two Idempotency-Keys, the same": b"Idempotency-Key: a\r\nidempotency-key: a\r\nConnection: close",
        "two sessions": b"X-Agentctx-Session: a\r\nX-Agentctx-Session: b\r\nConnection: close",
    }
    for name, line in lines.items():
        yield f"header: {name}", with_header(line)
    yield "header: no Host", GOOD.replace(b"Host: a\r\n", b"")
    yield "header: a first line that starts with a space", GOOD.replace(b"Host: a", b" Host: a")


def _lengths() -> Iterator[tuple[str, bytes]]:
    values = {
        "negative": b"-13",
        "signed": b"+13",
        "hexadecimal": b"0xd",
        "with a fraction": b"13.0",
        "with an exponent": b"1e1",
        "with an underscore": b"1_3",
        "with a space inside": b"1 3",
        "two, the same": b"13, 13",
        "two, different": b"13, 14",
        "empty": b"",
        "a word": b"all",
        "in quotes": b'"13"',
        "over 64 bits": b"18446744073709551629",
        "in another script": "١٣".encode(),
        "with a NUL": b"13\x00",
    }
    for name, value in values.items():
        yield f"length: {name}", GOOD.replace(b"Length: 13", b"Length: " + value)
    yield "length: given twice", with_header(b"Content-Length: 13")
    yield "length: given twice, different", with_header(b"Content-Length: 5")
    yield "length: in another case, different", with_header(b"content-LENGTH: 5")


def _codings() -> Iterator[tuple[str, bytes]]:
    name = b"Transfer-Encoding: "
    yield "coding: with a length after it", in_chunks(_WHOLE, coding=name + b"chunked\r\nContent-Length: 13")
    yield (
        "coding: with a length before it",
        in_chunks(_WHOLE, coding=b"Content-Length: 13\r\n" + name + b"chunked"),
    )
    yield (
        "coding: with a length of zero",
        in_chunks(_WHOLE, coding=b"Content-Length: 0\r\n" + name + b"chunked"),
    )
    yield "coding: in another case, with a length", with_header(b"tRANSFER-eNCODING: CHUNKED")
    values = {
        "not the last": b"chunked, identity",
        "identity": b"identity",
        "gzip": b"gzip",
        "gzip after it": b"chunked, gzip",
        "unknown": b"xchunked",
        "cut off": b"chunke",
        "in quotes": b'"chunked"',
        "with a control character": b"\x0bchunked",
        "empty": b"",
        "with a parameter": b"chunked;x=y",
        "unknown before it": b"xchunked, chunked",
        "gzip before it": b"gzip, chunked",
        "identity before it": b"identity, chunked",
        "a parameter before it": b"gzip;q=1,\tchunked",
        "itself before it": b"chunked, chunked",
        "nothing before it": b",chunked",
        "nothing after it": b"chunked,",
    }
    for which, value in values.items():
        yield f"coding: {which}", in_chunks(_WHOLE, coding=name + value)
    yield "coding: twice", in_chunks(_WHOLE, coding=name + b"chunked\r\n" + name + b"identity")
    yield "coding: two lines of it", in_chunks(_WHOLE, coding=name + b"chunked\r\n" + name + b"chunked")
    yield "coding: two lines, gzip first", in_chunks(_WHOLE, coding=name + b"gzip\r\n" + name + b"chunked")
    yield "coding: in HTTP/1.0", in_chunks(_WHOLE, coding=name + b"chunked").replace(b"/1.1", b"/1.0")
    yield "coding: in HTTP/1.0, with a length", with_header(name + b"chunked").replace(b"/1.1", b"/1.0")


def _chunks() -> Iterator[tuple[str, bytes]]:
    chunks = {
        "size not hexadecimal": b"zz\r\nabc\r\n",
        "size negative": b"-d\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "size signed": b"+d\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "size with 0x": b"0xd\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "size over 64 bits": b"1000000000000000d\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "size empty": b"\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "size after a space": b" d\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "size with a space inside": b"0 d\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "size with an underscore": b"0_d\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "longer than its size": b"3\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "shorter than its size": b"e\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "bare line feed after the size": b"d\n" + SEARCH + b"\r\n0\r\n\r\n",
        "bare line feed after the data": b"d\r\n" + SEARCH + b"\n0\r\n\r\n",
        "bare line feeds": b"d\n" + SEARCH + b"\n0\n\n",
        "bare carriage return after the size": b"d\r" + SEARCH + b"\r\n0\r\n\r\n",
        "nothing after the data": b"d\r\n" + SEARCH + b"0\r\n\r\n",
        "an extension with a NUL": b"d;x=\x00\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "an extension with a line feed": b"d;x=\n\r\n" + SEARCH + b"\r\n0\r\n\r\n",
        "a trailer without a colon": b"d\r\n" + SEARCH + b"\r\n0\r\nnonsense\r\n\r\n",
        "a trailer with a NUL": b"d\r\n" + SEARCH + b"\r\n0\r\nX: \x00\r\n\r\n",
        "a folded trailer": b"d\r\n" + SEARCH + b"\r\n0\r\nX: a\r\n b\r\n\r\n",
    }
    for name, rest in chunks.items():
        yield f"chunks: {name}", in_chunks(rest)


def _json() -> Iterator[tuple[str, bytes]]:
    depth, keys = 33, ",".join(f'"k{number}":0' for number in range(4_001))
    texts = {
        "nothing": b"",
        "spaces": b" \t\r\n",
        "null": b"null",
        "a number": b"5",
        "a text": b'"query"',
        "a list": b"[]",
        "two values": SEARCH + SEARCH,
        "something after": SEARCH + b"x",
        "a NUL after": SEARCH + b"\x00",
        "a byte order mark": b"\xef\xbb\xbf" + SEARCH,
        "UTF-16": '{"query":"a"}'.encode("utf-16"),
        "UTF-16 without a mark": '{"query":"a"}'.encode("utf-16-le"),
        "UTF-32": '{"query":"a"}'.encode("utf-32"),
        "a comment": b'{"query":"a"/* b */}',
        "a comment to the end of the line": b'{"query":"a"} // b',
        "single quotes": b"{'query':'a'}",
        "a name without quotes": b'{query:"a"}',
        "a comma at the end": b'{"query":"a",}',
        "a comma at the beginning": b'{,"query":"a"}',
        "two commas": b'{"query":"a",,"limit":1}',
        "no colon": b'{"query" "a"}',
        "no end": b'{"query":"a"',
        "a text without an end": b'{"query":"a',
        "Python": b'{"query":"a","degraded":True}',
        "undefined": b'{"query":undefined}',
        "a raw line feed in a text": b'{"query":"a\nb"}',
        "a raw tab in a text": b'{"query":"a\tb"}',
        "a raw NUL in a text": b'{"query":"a\x00b"}',
        "an escaped NUL": b'{"query":"a\\u0000b"}',
        "an escaped NUL in a name": b'{"query":"a","\\u0000":1}',
        "an unknown escape": b'{"query":"\\x41"}',
        "an incomplete escape": b'{"query":"\\u12"}',
        "an escape with a sign": b'{"query":"\\u+123"}',
        "an escape with an underscore": b'{"query":"\\u1_23"}',
        "a high surrogate alone": b'{"query":"\\ud83d"}',
        "a low surrogate alone": b'{"query":"\\ude00"}',
        "surrogates in the wrong order": b'{"query":"\\ude00\\ud83d"}',
        "a surrogate and a letter": b'{"query":"\\ud83da"}',
        "a surrogate in a name": b'{"query":"a","\\ud83d":1}',
        "a surrogate deep inside": b'{"query":"a","present":[{"role":"user","content":"\\udfff"}]}',
        "a surrogate in raw UTF-8": b'{"query":"\xed\xa0\xbd"}',
        "a pair of surrogates in raw UTF-8": b'{"query":"\xed\xa0\xbd\xed\xb8\x80"}',
        "Latin-1": b'{"query":"\xe9"}',
        "UTF-8 cut off": b'{"query":"\xc3"}',
        "an overlong slash": b'{"query":"\xc0\xaf"}',
        "an overlong NUL": b'{"query":"\xc0\x80"}',
        "UTF-8 beyond Unicode": b'{"query":"\xf4\x90\x80\x80"}',
        "UTF-8 of five bytes": b'{"query":"\xf8\x88\x80\x80\x80"}',
        "NaN": b'{"query":"a","max_distance":NaN}',
        "Infinity": b'{"query":"a","max_distance":Infinity}',
        "-Infinity": b'{"query":"a","max_distance":-Infinity}',
        "1e999": b'{"query":"a","max_distance":1e999}',
        "-1e999": b'{"query":"a","max_distance":-1e999}',
        "a number of 400 digits": b'{"query":"a","max_distance":' + b"9" * 400 + b".0}",
        "64 bits and one": b'{"query":"a","limit":18446744073709551616}',
        "5,000 digits": b'{"query":"a","limit":' + b"9" * 5_000 + b"}",
        "hexadecimal": b'{"query":"a","limit":0x10}',
        "a leading zero": b'{"query":"a","limit":010}',
        "a plus": b'{"query":"a","limit":+1}',
        "a point at the end": b'{"query":"a","max_distance":1.}',
        "a point at the beginning": b'{"query":"a","max_distance":.5}',
        "an underscore": b'{"query":"a","limit":1_0}',
        "digits in another script": b'{"query":"a","limit":\xd9\xa1}',
        "a text for a number": b'{"query":"a","limit":"5"}',
        "true for a number": b'{"query":"a","limit":true}',
        "a fraction for an integer": b'{"query":"a","limit":1.5}',
        "a list for a text": b'{"query":["a"]}',
        "null for a text": b'{"query":null}',
        "an unknown field": b'{"query":"a","namespaces":"b"}',
        "a field in another case": b'{"Query":"a"}',
        "a field twice": b'{"query":"a","query":"b"}',
        "a field twice, the same": b'{"query":"a","query":"a"}',
        "a field twice, once escaped": b'{"query":"a","\\u0071uery":"b"}',
        "a namespace twice": b'{"query":"a","namespace":"a","namespace":"b"}',
        "33 lists deep": b"[" * depth + b"]" * depth,
        "33 objects deep": b'{"a":' * depth + b"1" + b"}" * depth,
        "10,000 deep": b"[" * 10_000 + b"]" * 10_000,
        "10,000 deep without an end": b'{"a":' * 10_000,
        "4,001 fields": b"{" + keys.encode() + b"}",
        "__proto__": b'{"query":"a","__proto__":{"x":1}}',
        "__class__": b'{"query":"a","__class__":"os.system"}',
    }
    for name, text in texts.items():
        yield f"JSON: {name}", posted(text)
    save: dict[str, object] = {"collection": "knowledge", "key": "k", "content": "a"}
    changes: dict[str, dict[str, object]] = {
        "a NUL in a key": {"key": "a\x00b"},
        "a NUL in a tag": {"tags": ["a\x00"]},
        "a surrogate in a tag": {"tags": ["\ud800"]},
        "a NUL in the namespace": {"namespace": "a\x00"},
        "a surrogate in the session": {"session": "\udc00"},
    }
    for name, change in changes.items():
        yield f"JSON: {name}", posted(json.dumps({**save, **change}).encode(), path=b"/v1/entries")


MALFORMED: Final[dict[str, bytes]] = {
    name: request
    for group in (_request_lines, _headers, _lengths, _codings, _chunks, _json)
    for name, request in group()
}
