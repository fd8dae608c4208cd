"""Streams of both clients: any number of saves, and all entries page by page."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any

import pytest

from agentctx.client.async_client import AsyncClient
from agentctx.client.sync_client import Client
from agentctx.errors import InvalidInput, StorageFull
from agentctx.wire import EntryPage, SaveManyReply, SaveRequest, SaveResult
from tests.client.stub_daemon import Reply, StubDaemon, StubRequest, entry, save_result


@pytest.fixture(params=[Client, AsyncClient])
async def client(request: pytest.FixtureRequest, daemon: StubDaemon) -> AsyncIterator[Any]:
    client = request.param(daemon.socket, namespace="team")
    yield client
    closing = client.close()
    if closing is not None:
        await closing


async def each(stream: Any) -> AsyncIterator[Any]:
    if isinstance(stream, AsyncIterable):
        async for item in stream:
            yield item
    else:
        for item in stream:
            yield item


def requests(count: int, pulled: list[int] | None = None) -> Iterator[SaveRequest]:
    for number in range(count):
        if pulled is not None:
            pulled.append(number)
        yield SaveRequest(collection="observation", session="s", content=f"text {number}")


def save_all(seen: StubRequest) -> Reply:
    results = [save_result(id=one["content"]) for one in seen.body["entries"]]
    return 200, SaveManyReply(results=list(results))


async def test_ten_thousand_saves_go_in_bounded_batches_and_return_in_order(
    client: Any, daemon: StubDaemon
) -> None:
    daemon.answer("POST", "/v1/entries", save_all)

    ids = [outcome.id async for outcome in each(client.save_all(requests(10_000)))]

    assert ids == [f"text {number}" for number in range(10_000)]
    assert [len(seen.body["entries"]) for seen in daemon.seen] == [500] * 20
    assert len({seen.headers["idempotency-key"] for seen in daemon.seen}) == 20
    assert {one["namespace"] for seen in daemon.seen for one in seen.body["entries"]} == {"default"}


async def test_requests_are_pulled_only_as_results_are_taken(client: Any, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/entries", save_all)
    pulled: list[int] = []
    stream = each(client.save_all(requests(100, pulled), batch_entries=10))

    assert not pulled
    await anext(stream)
    assert (len(pulled), len(daemon.seen)) == (10, 1)
    for _ in range(10):
        await anext(stream)
    assert (len(pulled), len(daemon.seen)) == (20, 2)


async def test_an_empty_stream_sends_no_request(client: Any, daemon: StubDaemon) -> None:
    assert [outcome async for outcome in each(client.save_all([]))] == []
    assert not daemon.seen


async def test_a_batch_whose_connection_drops_is_repeated_with_the_same_key(
    client: Any, daemon: StubDaemon
) -> None:
    daemon.answer("POST", "/v1/entries", save_all)
    daemon.dropping = 1

    outcomes = [outcome async for outcome in each(client.save_all(requests(4), batch_entries=2))]

    assert len(outcomes) == 4
    keys = [seen.headers["idempotency-key"] for seen in daemon.seen]
    assert keys[0] == keys[1] != keys[2]


async def test_an_entry_that_invalidates_its_request_fails_alone(client: Any, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/entries", save_all)
    odd: Any = SaveRequest(collection="observation", content="odd", tags=[1])  # type: ignore[list-item]  # deliberate
    unsendable = SaveRequest(collection="observation", content="\udcff")

    given = [*requests(3), odd, unsendable, *requests(2)]
    outcomes = [outcome async for outcome in each(client.save_all(given))]

    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [SaveResult] * 3 + [InvalidInput] * 2 + [SaveResult] * 2


async def test_a_failed_batch_ends_the_stream_after_the_results_before_it(
    client: Any, daemon: StubDaemon
) -> None:
    full = {"error": {"code": "storage_full", "message": "full", "hint": ""}}
    daemon.answer("POST", "/v1/entries", save_all, (507, full))
    stream = each(client.save_all(requests(30), batch_entries=10))

    assert [(await anext(stream)).id for _ in range(10)] == [f"text {number}" for number in range(10)]
    with pytest.raises(StorageFull):
        await anext(stream)


async def test_the_asynchronous_client_takes_asynchronous_sources(daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/entries", save_all)

    async with AsyncClient(daemon.socket) as client:
        outcomes = [outcome async for outcome in client.save_all(_asynchronous(requests(5)))]

    assert len(outcomes) == 5


async def _asynchronous(source: Iterable[SaveRequest]) -> AsyncIterator[SaveRequest]:
    for request in source:
        yield request


async def test_pages_are_fetched_only_as_their_entries_are_taken(client: Any, daemon: StubDaemon) -> None:
    first = EntryPage(entries=[entry(id="1"), entry(id="2")], next="two")
    daemon.answer("GET", "/v1/entries", (200, first), (200, EntryPage(entries=[entry(id="3")], next=None)))
    stream = each(client.iterate(collections=["knowledge"], limit=2))

    assert [(await anext(stream)).id, (await anext(stream)).id] == ["1", "2"]
    assert len(daemon.seen) == 1
    assert [one.id async for one in stream] == ["3"]

    narrowed = {"namespace": ["team"], "collection": ["knowledge"], "limit": ["2"]}
    assert [seen.query for seen in daemon.seen] == [narrowed, {**narrowed, "cursor": ["two"]}]
