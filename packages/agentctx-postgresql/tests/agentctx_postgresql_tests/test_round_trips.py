"""How many round trips the engine needs: each costs a network delay when the server is remote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from agentctx.storage.copying import CopiedVersion, VersionKey
from agentctx.storage.ids import new_id
from agentctx.storage.records import IdempotencyKey
from agentctx_postgresql import erasures
from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql.search import keyword_search, term_counts
from agentctx_postgresql_tests.counting_relay import CountingRelay, counting_relay
from agentctx_postgresql_tests.server import USER, RunningServer
from agentctx_testing.drafts import (
    ALL,
    assert_sound,
    draft,
    embed,
    keyless,
    save,
    serving_space,
    vector,
    with_turns,
)


@pytest.fixture
async def relay(tmp_path: Path, server: RunningServer) -> AsyncIterator[CountingRelay]:
    async with counting_relay(tmp_path, server.folder) as relay:
        yield relay


@pytest.fixture
async def storage(
    relay: CountingRelay, database: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresqlStorage]:
    """An engine that does not watch for other daemons' erasures: the relay would count those queries too."""
    monkeypatch.setattr(erasures, "POLL_S", 3_600.0)
    name = database.split("@/")[1].partition("?")[0]
    url = f"postgresql://{USER}@/{name}?host={relay.folder}"
    opened = await PostgresqlStorage.open(Server(url=url), daemon="a")
    yield opened
    await opened.close()


async def save_turns(storage: PostgresqlStorage) -> list[int]:
    """Save a conversation of five turns with vectors; return their chunk ids."""
    await serving_space(storage)
    for number in range(5):
        turn = keyless(f"turn {number}", collection="observation", session="s")
        await embed(storage, await save(storage, turn))
    return sorted(hit.chunk for hit in (await storage.search.by_words("turn", ALL, 50)).hits)


async def test_reading_hits_takes_one_round_trip(storage: PostgresqlStorage, relay: CountingRelay) -> None:
    chunks = await save_turns(storage)
    assert await relay.count_round_trips(lambda: storage.search.resolve(chunks, ALL)) == 1


async def test_reading_hits_with_their_turns_takes_two(
    storage: PostgresqlStorage, relay: CountingRelay
) -> None:
    chunks = await save_turns(storage)
    (space,) = await storage.spaces.all()
    found = await with_turns(storage, chunks[2:3], ALL, space.id)
    assert found.turns == {chunks[2]: {-2: chunks[0], -1: chunks[1], 1: chunks[3], 2: chunks[4]}}
    assert set(found.distances) == set(chunks) - {chunks[2]}
    assert await relay.count_round_trips(lambda: with_turns(storage, chunks[2:3], ALL, space.id)) == 2


async def test_a_vector_search_takes_one(storage: PostgresqlStorage, relay: CountingRelay) -> None:
    await save_turns(storage)
    (space,) = await storage.spaces.all()
    assert await relay.count_round_trips(lambda: storage.search.by_vector(space.id, vector(1), ALL, 5)) == 1


async def test_a_keyword_search_takes_two(storage: PostgresqlStorage, relay: CountingRelay) -> None:
    await save_turns(storage)
    assert await relay.count_round_trips(lambda: storage.search.by_words("turn 3 of-many words", ALL, 5)) == 2


async def test_a_keyword_search_in_a_large_namespace_takes_two(
    storage: PostgresqlStorage, relay: CountingRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyword_search, "SMALL_SCOPE", 2)
    monkeypatch.setattr(term_counts, "MAX_COUNTED", 3)
    await save_turns(storage)
    assert await relay.count_round_trips(lambda: storage.search.by_words("turn 3 of-many words", ALL, 5)) == 2


_numbers = count()


async def save_with_request_key(storage: PostgresqlStorage, *, key: str | None) -> None:
    """Save another text under the key, as the daemon does: with an Idempotency-Key, screened and audited."""
    number = next(_numbers)
    request = IdempotencyKey(1000, f"request {number}", b"digest")
    content = f"The text has the number {number}."
    await storage.entries.save(draft(content, key=key, flags=()), embed=True, idempotency=request)


async def test_saving_a_new_entry_takes_one(storage: PostgresqlStorage, relay: CountingRelay) -> None:
    await save_turns(storage)
    assert await relay.count_round_trips(lambda: save_with_request_key(storage, key=None)) == 1


async def test_saving_under_a_new_key_takes_four(storage: PostgresqlStorage, relay: CountingRelay) -> None:
    await save_turns(storage)

    async def act() -> None:
        await save_with_request_key(storage, key=f"key {next(_numbers)}")

    assert await relay.count_round_trips(act) == 4


async def test_saving_under_a_known_key_takes_five(storage: PostgresqlStorage, relay: CountingRelay) -> None:
    await save_turns(storage)
    await save_with_request_key(storage, key="known")
    assert await relay.count_round_trips(lambda: save_with_request_key(storage, key="known")) == 5
    await assert_sound(storage)


def copied_versions(entries: int) -> list[CopiedVersion]:
    """Return two versions of each entry, the second one live."""
    return [
        CopiedVersion(
            key=VersionKey(entry, version),
            live=version == 2,
            draft=keyless(f"Version {version} of {entry}.", spans=()),
            created=1,
            updated=version,
            chunks=(),
        )
        for entry in (new_id(1, "default") for _ in range(entries))
        for version in (1, 2)
    ]


async def test_copying_more_versions_takes_no_more(storage: PostgresqlStorage, relay: CountingRelay) -> None:
    few, many = copied_versions(2), copied_versions(50)
    await storage.copying.put(copied_versions(1))
    trips = await relay.count_round_trips(lambda: storage.copying.put(few))
    assert await relay.count_round_trips(lambda: storage.copying.put(many)) == trips
    assert set(await storage.copying.find([each.key for each in many])) == {each.key for each in many}
