"""Quotas as a client sees them: replies, headers and connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentctx.config.access import QuotaSettings
from agentctx.server.quota_gate import CACHED_S, QuotaGate
from agentctx.service.base import Peer
from agentctx.service.guard_rules import AccessContext
from agentctx.storage.quotas import Quotas, Usage
from agentctx.wire import EditRequest, OutcomeRequest
from tests.running_core import ME, running_core, save
from tests.server.recording import RecordingService
from tests.server.running import nothing, parse_reply, read_reply, recorded_app, running
from tests.service.access.peers import PEERS, access_control, client_of

ENTRY = {"collection": "knowledge", "key": "k", "content": "text"}
MIB = 1024 * 1024


class GateWorld:
    """The gate's surroundings: the time, the users' usage, and the refusals."""

    def __init__(self) -> None:
        self.now = 0.0
        self.usage = Usage(0, 0)
        self.looked_up: list[int] = []
        self.refused: list[str] = []

    async def usage_of(self, uid: int) -> Usage:
        self.looked_up.append(uid)
        return self.usage


Open = Callable[[str], Any]


async def in_default(_: str) -> str:
    """Every entry is in the namespace that the users may use."""
    return "default"


@asynccontextmanager
async def gated(world: GateWorld, **settings: Any) -> AsyncIterator[Open]:
    """Yield a function that opens a client for one of `PEERS`."""
    access = access_control()
    quotas = Quotas(
        QuotaSettings(**settings),
        unlimited=[PEERS["owner"].uid, 0],
        capacity=1_000,
        refused=world.refused.append,
    )
    gate = QuotaGate(quotas, world.usage_of, lambda: world.now)
    app = recorded_app(RecordingService(), context=AccessContext(access, in_default, nothing), quotas=gate)
    yield lambda who: client_of(app, PEERS[who])


async def statuses(http: httpx.AsyncClient, count: int) -> list[int]:
    return [(await http.post("/v1/search", json={"query": "a"})).status_code for _ in range(count)]


async def test_too_many_requests_are_429_with_a_retry_after() -> None:
    world = GateWorld()
    async with gated(world, requests_per_second=0.4, burst=2) as open_client, open_client("reader") as http:
        assert await statuses(http, 2) == [200, 200]
        refused = await http.post("/v1/search", json={"query": "a"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
        assert refused.headers["retry-after"] == "3"
        assert refused.json()["error"]["hint"]
        world.now += 3.0
        assert await statuses(http, 2) == [200, 429]
    assert world.refused == ["requests", "requests"]


@pytest.mark.parametrize("who", ["owner", "root", "admin"])
async def test_admins_have_no_quotas(who: str) -> None:
    world = GateWorld()
    world.usage = Usage(10**12, 10**6)
    async with gated(world, requests_per_second=1, burst=1, stored_mb=1) as open_client:
        async with open_client("reader") as other:
            await statuses(other, 1)
        async with open_client(who) as http:
            assert await statuses(http, 20) == [200] * 20
            assert (await http.post("/v1/entries", json=ENTRY)).status_code == 201
    assert not world.refused
    assert not world.looked_up


async def test_users_have_separate_request_quotas() -> None:
    async with gated(GateWorld(), requests_per_second=1, burst=1) as open_client:
        async with open_client("reader") as http:
            assert await statuses(http, 3) == [200, 429, 429]
        async with open_client("writer") as http:
            assert await statuses(http, 1) == [200]


async def test_probes_are_not_counted() -> None:
    async with (
        gated(GateWorld(), requests_per_second=1, burst=1) as open_client,
        open_client("reader") as http,
    ):
        assert {(await http.get("/healthz")).status_code for _ in range(5)} == {200}
        assert await statuses(http, 1) == [200]


async def test_a_stranger_is_refused_without_a_database_query() -> None:
    world = GateWorld()
    async with gated(world) as open_client, open_client("stranger") as http:
        assert (await http.post("/v1/entries", json=ENTRY)).status_code == 403
    assert world.looked_up == []


async def test_the_storage_quota_applies_only_to_saves() -> None:
    world = GateWorld()
    world.usage = Usage(MIB - 200, 0)
    async with gated(world, stored_mb=1) as open_client, open_client("writer") as http:
        assert (await http.post("/v1/entries", json=ENTRY)).status_code == 201
        # Saves since the last query count, too.
        full = [await http.post("/v1/entries", json=ENTRY) for _ in range(4)]
        assert {(reply.status_code, reply.json()["error"]["code"]) for reply in full[-2:]} == {
            (507, "quota_exceeded")
        }
        assert (await http.patch("/v1/entries/e1", json={"content": "x" * 300})).status_code == 507
        assert await statuses(http, 1) == [200]
        assert (await http.delete("/v1/entries/e1")).status_code == 200
        assert len(world.looked_up) == 1
        world.now += CACHED_S
        world.usage = Usage(0, 0)
        assert (await http.post("/v1/entries", json=ENTRY)).status_code == 201
    assert set(world.refused) == {"stored"}


async def test_concurrent_saves_are_counted_together_with_one_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, asked, answered = GateWorld(), asyncio.Event(), asyncio.Event()
    look = world.usage_of

    async def usage_slowly(uid: int) -> Usage:
        found = await look(uid)
        asked.set()
        await answered.wait()
        return found

    monkeypatch.setattr(world, "usage_of", usage_slowly)
    async with gated(world, stored_mb=1) as opened, opened("writer") as http:
        entry = {**ENTRY, "content": "x" * 400_000}
        saves = [asyncio.create_task(http.post("/v1/entries", json=entry)) for _ in range(4)]
        await asked.wait()
        answered.set()
        statuses = sorted([(await save).status_code for save in saves])
    assert (len(world.looked_up), statuses) == (1, [201, 201, 507, 507])


async def test_a_full_queue_refuses_saves() -> None:
    world = GateWorld()
    world.usage = Usage(0, 250)
    async with gated(world) as open_client, open_client("writer") as http:
        assert (await http.post("/v1/entries", json=ENTRY)).status_code == 201
        async with open_client("reader") as other:
            await statuses(other, 1)
        refused = await http.post("/v1/entries", json=ENTRY)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
    assert world.refused == ["queue"]


async def test_usage_is_the_text_that_the_user_saved(tmp_path: Path) -> None:
    async with running_core(tmp_path, None) as core:
        await save(core, key="a", content="é" * 100)
        await save(core, key="b", content="x" * 50)
        assert await core.storage.usage(ME.uid) == Usage(250, 0)
        assert await core.storage.usage(ME.uid + 1) == Usage(0, 0)


async def test_an_edited_entry_counts_for_the_user_who_edited_it(tmp_path: Path) -> None:
    other = Peer(pid=1, uid=ME.uid + 1, gid=1)
    async with running_core(tmp_path, None) as core:
        entry = await save(core, key="a", content="x" * 200)
        await core.entries.edit(entry.id, EditRequest(content="y" * 300), other)
        assert await core.storage.usage(other.uid) == Usage(300, 0)
        learning = await save(core, "learning", trigger="it fails", fix="again")
        await core.entries.outcome(learning.id, OutcomeRequest(success=True), other)
        assert await core.storage.usage(other.uid) == Usage(300, 0), "counting an outcome stores no text"


class WatchedQuotas(Quotas):
    """Signals when the last connection has ended."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(QuotaSettings(**settings), unlimited=[], capacity=1)
        self.empty = asyncio.Event()

    def disconnect(self, uid: int) -> None:
        super().disconnect(uid)
        if not +self._connections:
            self.empty.set()


async def test_an_excess_connection_is_429_and_releases_its_slot() -> None:
    quotas = WatchedQuotas(connections=2)
    async with running(quotas=quotas) as daemon:
        async with daemon.connection() as (one, first), daemon.connection() as (two, second):
            for reader, writer in ((one, first), (two, second)):
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                assert (await read_reply(reader)).status == 200
            reply = parse_reply(await daemon.exchange(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"))
            assert (reply.status, reply.code, reply.headers["retry-after"]) == (429, "rate_limited", "1")
        await quotas.empty.wait()
        assert await daemon.is_healthy()
