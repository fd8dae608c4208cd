"""Every malformed request over a socket gets a 400, does nothing, and does not affect other connections."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.server.malformed import GOOD, MALFORMED, in_chunks, with_header
from tests.server.running import Running, parse_reply, read_reply, read_to_end, running

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


async def problem(daemon: Running, malformed: bytes) -> str | None:
    """Return what is wrong with the reply to a malformed request, or None."""
    daemon.service.calls.clear()
    try:
        raw = await daemon.exchange(malformed)
    except TimeoutError:
        return "the connection stays open"
    if not raw.endswith(b"Invalid HTTP request received."):  # uvicorn's words for what its parser refuses
        reply = parse_reply(raw)
        if (reply.status, reply.code) != (400, "invalid_input") or not reply.body["error"]["message"]:
            return f"{reply.status} {reply.body}"
    elif not raw.startswith(b"HTTP/1.1 400"):
        return raw.decode()
    if daemon.service.calls:
        return f"it did {daemon.service.calls}"
    return None if await daemon.is_healthy() else "others are no longer served"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_malformed_request_is_400(daemon: Running) -> None:
    problems = {name: await problem(daemon, malformed) for name, malformed in MALFORMED.items()}
    assert {name: what for name, what in problems.items() if what} == {}


@pytest.mark.asyncio(loop_scope="module")
async def test_a_request_smuggled_behind_a_malformed_one_is_not_served(daemon: Running) -> None:
    """The connection ends with the refusal, or the rest is read from where the request really ended."""
    smuggled = b"DELETE /v1/entries/smuggled HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    found = {}
    for name, malformed in MALFORMED.items():
        daemon.service.calls.clear()
        async with daemon.connection() as (reader, writer):
            writer.write(malformed + smuggled)
            status = (await read_to_end(reader)).split(b" ")[1]
            found[name] = (status, daemon.service.calls[:])
    assert {name: what for name, what in found.items() if what != (b"400", [])} == {}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", WELL_FORMED)
async def test_a_well_formed_request_is_answered(name: str, daemon: Running) -> None:
    daemon.service.calls.clear()
    async with daemon.connection() as (reader, writer):
        writer.write(WELL_FORMED[name])
        assert (await read_reply(reader)).status == 200
    assert [call[0] for call in daemon.service.calls] == ["search"]
