"""Every malformed request at the server over its socket: 400, nothing done, and the neighbours are served."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.server.malformed import GOOD, MALFORMED, in_chunks, with_header
from tests.server.running import Running, parse_reply, read_reply, running

WELL_FORMED = {
    "with a length": GOOD,
    "in chunks": in_chunks(b'3\r\n{"q\r\na\r\nuery":"a"}\r\n0\r\n\r\n'),
    "with another header": with_header(b"X: y"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon() -> AsyncIterator[Running]:
    async with running(header_timeout_s=2.0, body_timeout_s=2.0) as daemon:
        yield daemon


def test_the_corpus_is_large() -> None:
    assert len(MALFORMED) >= 150
    assert len(set(MALFORMED.values())) == len(MALFORMED)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_request_is_400(name: str, daemon: Running) -> None:
    daemon.service.calls.clear()
    reply = parse_reply(await daemon.exchange(MALFORMED[name]))
    assert (reply.status, reply.code) == (400, "invalid_input")
    assert reply.body["error"]["message"]
    assert daemon.service.calls == []
    assert await daemon.is_healthy()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", MALFORMED)
async def test_what_follows_a_malformed_request_is_not_taken_for_another(name: str, daemon: Running) -> None:
    """The connection ends with the refusal, or the rest of it is read where the request really ended."""
    daemon.service.calls.clear()
    smuggled = b"DELETE /v1/entries/smuggled HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    async with daemon.connection() as (reader, writer):
        writer.write(MALFORMED[name] + smuggled)
        assert (await read_reply(reader)).status == 400
    assert daemon.service.calls == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", WELL_FORMED)
async def test_the_same_request_well_formed_is_answered(name: str, daemon: Running) -> None:
    daemon.service.calls.clear()
    async with daemon.connection() as (reader, writer):
        writer.write(WELL_FORMED[name])
        assert (await read_reply(reader)).status == 200
    assert [call[0] for call in daemon.service.calls] == ["search"]
