from __future__ import annotations

import asyncio
import gc
import gzip
import json
import logging
import traceback
from typing import Any

import pytest

from agentctx.embedding.providers.remote.http import refusal
from agentctx.embedding.providers.remote.provider import RemoteProvider
from agentctx.errors import Disposition, ProviderFailed
from tests.embedding.providers.remote.conftest import MakeProvider
from tests.embedding.providers.remote.loopback import Loopback, http, loopback, replies
from tests.embedding.providers.remote.wire_answers import ANSWERS, DIMENSION, KEY

ONES = [1.0] * DIMENSION
GOOD = json.dumps({"data": [{"embedding": ONES}, {"embedding": ONES}]}).encode()
PRIVATE = "the secret of the cat"


async def failure_of(provider: RemoteProvider) -> ProviderFailed:
    with pytest.raises(ProviderFailed) as caught:
        await provider.embed([PRIVATE, "dog"])
    return caught.value


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_stops_and_is_not_followed(
    server: Loopback, connect: MakeProvider, status: int
) -> None:
    async with loopback(ANSWERS["openai"]) as elsewhere:
        server.answer = lambda _: http(status, b"", location=elsewhere.base_url + "/v1/embeddings")
        failed = await failure_of(connect())
    assert failed.disposition is Disposition.STOP
    assert "a redirect" in failed.message
    assert elsewhere.received == []


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"not HTTP at all\r\n\r\n",
        http(200, b'{"data": [', length=10_000),
        http(200, b'{"data": [{"index": 0, "emb'),
        http(200, b"\xff\xfe"),
        http(200, b"[" * 100_000),
        http(200, b"<html>", content_type="text/html"),
        http(200, GOOD, content_type="text/plain"),
        http(204, b""),
        replies({"error": "so sorry"}),
        replies([]),
    ],
)
async def test_broken_replies_are_retried(server: Loopback, connect: MakeProvider, response: bytes) -> None:
    server.answer = lambda _: response
    assert (await failure_of(connect())).disposition is Disposition.RETRY


async def test_a_valid_reply_with_another_json_type_is_accepted(
    server: Loopback, connect: MakeProvider
) -> None:
    server.answer = lambda _: http(200, GOOD, content_type="application/vnd.v2+json; charset=utf-8")
    assert (await connect().embed(["cat", "dog"])).shape == (2, DIMENSION)


async def test_a_refused_connection_is_retried(server: Loopback, connect: MakeProvider) -> None:
    async with loopback(ANSWERS["openai"]) as gone:
        pass
    failed = await failure_of(connect(base_url=gone.base_url))
    assert failed.disposition is Disposition.RETRY
    assert "cannot be reached" in failed.message


async def test_a_silent_provider_times_out(server: Loopback, connect: MakeProvider) -> None:
    server.hangs = lambda _: True
    failed = await failure_of(connect(queue={"call_timeout_s": 0.05}))
    assert failed.disposition is Disposition.RETRY
    assert "0.05 s" in failed.message


async def test_an_endless_reply_is_cut_off_at_its_limit(server: Loopback, connect: MakeProvider) -> None:
    server.answer = lambda _: http(200, b"", length=10**12)
    server.endless = True
    failed = await failure_of(connect())
    assert failed.disposition is Disposition.RETRY
    assert f"larger than {2**20 + 2 * 2**18} bytes" in failed.message


async def test_a_compressed_reply_is_cut_off_at_the_same_limit(
    server: Loopback, connect: MakeProvider
) -> None:
    bomb = gzip.compress(b" " * 2**27)
    server.answer = lambda _: http(200, bomb, content_encoding="gzip")
    failed = await failure_of(connect())
    assert failed.disposition is Disposition.RETRY
    assert f"larger than {2**20 + 2 * 2**18} bytes" in failed.message


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e39", "0.0", "1e-60"])
async def test_a_vector_without_a_direction_splits(
    server: Loopback, connect: MakeProvider, number: str
) -> None:
    row = f'{{"embedding": [{", ".join([number] * DIMENSION)}]}}'
    server.answer = lambda _: http(200, f'{{"data": [{row}, {row}]}}'.encode())
    failed = await failure_of(connect())
    assert failed.disposition is Disposition.SPLIT


async def test_subnormal_vectors_have_a_direction(server: Loopback, connect: MakeProvider) -> None:
    row = {"embedding": [1e-40] * DIMENSION}
    server.answer = lambda _: replies({"data": [row, row]})
    vectors = await connect().embed(["cat", "dog"])
    assert (vectors**2).sum(axis=1) == pytest.approx([1, 1])


async def test_an_endless_error_reply_is_still_classified(server: Loopback, connect: MakeProvider) -> None:
    server.answer = lambda _: http(401, b"", length=10**12)
    server.endless = True
    assert (await failure_of(connect())).disposition is Disposition.STOP


async def test_a_requested_pause_is_passed_on(server: Loopback, connect: MakeProvider) -> None:
    server.answer = lambda _: replies({}, 429, retry_after="7")
    failed = await failure_of(connect())
    assert (failed.disposition, failed.retry_after_s) == (Disposition.LATER, 7)


async def test_environment_proxies_are_used_only_if_configured(
    server: Loopback, connect: MakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with loopback(lambda _: replies({}, 403)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        await connect().embed_query("cat")
        assert proxy.received == []
        await failure_of(connect(use_environment_proxies=True))
        assert len(proxy.received) == 1


def everything_printable(error: BaseException) -> str:
    """Return all that a log could print of an error: its chain, and locals of all frames but the tests'."""
    captured = traceback.TracebackException.from_exception(error, capture_locals=True)
    captured.stack[:] = [frame for frame in captured.stack if "/tests/" not in frame.filename]
    parts = ["".join(captured.format())]
    link: BaseException | None = error
    while link is not None:
        parts += [str(link), repr(link), repr(vars(link))]
        link = link.__cause__ or link.__context__
    return "\n".join(parts)


@pytest.mark.parametrize("service", list(ANSWERS))
@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"garbage",
        http(307, b"", location="http://127.0.0.1:9/elsewhere"),
        replies({"error": {"message": f"Incorrect API key: {KEY}", "code": KEY, "type": KEY}}, 401),
        replies({"error": {"message": PRIVATE, "code": "secret"}}, 400),
        http(500, f"{KEY} {PRIVATE}".encode(), content_type="text/plain"),
        http(200, json.dumps({"data": 7, "embeddings": 7}).encode()),
    ],
)
async def test_the_key_is_in_no_error_log_repr_or_traceback(
    server: Loopback,
    connect: MakeProvider,
    caplog: pytest.LogCaptureFixture,
    service: str,
    response: bytes,
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer = lambda _: response
    provider = connect(service)
    failed = await failure_of(provider)
    sent = server.received[0].headers
    assert KEY in sent.get("authorization", "") + sent.get("x-goog-api-key", "")
    of_us = (
        f"{provider!r} {vars(provider)} {vars(provider._http)} {dict(provider.fingerprint)} {provider.name}"
    )
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name != "asyncio")
    for place in (failed.message, failed.hint, everything_printable(failed), of_us, logged):
        assert KEY not in place
    assert PRIVATE not in failed.message + failed.hint
    assert "secret" not in failed.message


async def test_the_error_of_a_failed_connection_does_not_contain_the_key(
    server: Loopback, connect: MakeProvider
) -> None:
    async with loopback(ANSWERS["openai"]) as gone:
        pass
    failed = await failure_of(connect(base_url=gone.base_url))
    assert KEY not in everything_printable(failed)
    assert failed.__context__ is None


async def test_a_cancelled_request_returns_its_connection(server: Loopback, connect: MakeProvider) -> None:
    provider = connect()
    server.hangs = lambda request: request.body["input"] == ["slow"]
    for _ in range(30):  # more than the pool has connections
        call = asyncio.create_task(provider.embed_query("slow"))
        await server.arrived.acquire()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await provider.embed_query("cat")


async def test_closing_leaves_no_socket_open(server: Loopback, connect: MakeProvider) -> None:
    provider = connect()
    await provider.embed_query("cat")
    await provider.aclose()
    del provider
    gc.collect()  # an unclosed socket causes a ResourceWarning, which fails the test


def refused_with(
    status: int, reply: Any = None, *, withheld: tuple[str, ...] = (), **headers: str
) -> ProviderFailed:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return refusal(status, named, json.dumps(reply).encode(), now=0.0, withheld=withheld)


@pytest.mark.parametrize(
    ("statuses", "disposition"),
    [
        ((300, 301, 302, 303, 304, 307, 308), Disposition.STOP),
        ((400, 413, 422), Disposition.SPLIT),
        ((401, 402, 403, 404, 405, 410, 451), Disposition.STOP),
        ((408, 409, 425, 500, 502, 503, 504, 529), Disposition.RETRY),
        ((429,), Disposition.LATER),
    ],
)
def test_statuses_are_classified(statuses: tuple[int, ...], disposition: Disposition) -> None:
    for status in statuses:
        failed = refused_with(status)
        assert (failed.disposition, failed.retry_after_s) == (disposition, None), status
        assert str(status) in failed.message


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503])
def test_a_transient_refusal_with_a_pause_is_for_later(status: int) -> None:
    failed = refused_with(status, retry_after="12")
    assert (failed.disposition, failed.retry_after_s) == (Disposition.LATER, 12)


@pytest.mark.parametrize("status", [301, 400, 401, 404])
def test_a_permanent_refusal_ignores_the_pause(status: int) -> None:
    assert refused_with(status, retry_after="12").retry_after_s is None


def test_rate_limit_headers_count_only_for_429() -> None:
    assert refused_with(429, x_ratelimit_reset_tokens="6s").retry_after_s == 6
    assert refused_with(500, x_ratelimit_reset_tokens="6s").disposition is Disposition.RETRY


def test_googles_retry_info_is_a_pause() -> None:
    reply = {"error": {"status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "34s"}]}}
    failed = refused_with(429, reply)
    assert (failed.disposition, failed.retry_after_s) == (Disposition.LATER, 34)
    assert failed.message == "The provider answered 429 (RESOURCE_EXHAUSTED)."


@pytest.mark.parametrize(
    "error",
    [
        {"code": 400, "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]},
        {"code": 400, "status": "FAILED_PRECONDITION", "message": "User location is not supported"},
        {"code": "invalid_api_key"},
    ],
)
def test_a_wrong_key_or_project_with_status_400_stops_instead_of_splitting(error: dict[str, Any]) -> None:
    failed = refused_with(400, {"error": error}, withheld=("what does API_KEY_INVALID mean",))
    assert failed.disposition is Disposition.STOP
    assert "api_key" in failed.hint


def test_messages_show_codes_but_no_prose() -> None:
    error = {"message": "I dislike 'my diary'", "type": "insufficient_quota", "code": "insufficient_quota"}
    assert refused_with(429, {"error": error}).message == "The provider answered 429 (insufficient_quota)."


@pytest.mark.parametrize(
    "code", ["sk-abc123", "diary", "my diary", "a" * 49, 7, None, ["x"], "codeMYKEYcode"]
)
def test_a_code_that_could_be_a_key_or_text_is_not_shown(code: Any) -> None:
    failed = refused_with(400, {"error": {"code": code}}, withheld=("my diary of 2026", "MYKEY"))
    assert failed.message == "The provider answered 400."


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 99_999, b"[]", b'"x"', b'{"error": []}'])
def test_any_body_can_be_classified(body: bytes) -> None:
    failed = refusal(503, {}, body, now=0.0, withheld=())
    assert failed.disposition is Disposition.RETRY
