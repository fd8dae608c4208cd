"""What a user may not read is like what does not exist, to the last byte but the id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentctx.config.schema import Settings
from agentctx.daemon.build import Core
from agentctx.server.app import create_app
from agentctx.service.base import Peer
from agentctx.service.guard import guarded
from agentctx.wire import ContextRequest
from tests.access.peers import access_control, client_of, grant
from tests.running_core import running_core, save, sqlite_of
from tests.storage.drafts import ManualClock

ME, OTHER = Peer(pid=1, uid=8_001, gid=8_001), Peer(pid=1, uid=8_002, gid=8_002)
MISSING = "01900000-0000-7000-8000-000000000007"


@dataclass
class Machine:
    core: Core
    http: httpx.AsyncClient
    clock: ManualClock
    grants: Any

    async def receipt(self, peer: Peer, namespace: str) -> str:
        question = ContextRequest(query="password", namespace=namespace, position="tail")
        reply = await self.core.service.context(question, peer)
        assert reply.injection_id is not None
        return reply.injection_id


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """As `ME` sees it, who may write in `mine`, read in `read` and `team-*`, and nothing else."""
    clock = ManualClock()
    access = access_control(
        grant("write", "mine", uid=ME.uid),
        grant("read", "read", "team-*", uid=ME.uid),
        grant("write", "mine", "theirs", uid=OTHER.uid),
    )
    async with running_core(tmp_path, None, clock=clock) as core:
        service = guarded(core.service, core.access_context(access))
        async with client_of(create_app(service, Settings(), access=access), ME) as http:
            yield Machine(core, http, clock, access)


ID_ROUTES: dict[str, tuple[str, str, Any]] = {
    "get": ("GET", "/v1/entries/{id}", None),
    "get a version": ("GET", "/v1/entries/{id}?version=1", None),
    "versions": ("GET", "/v1/entries/{id}/versions", None),
    "edit": ("PATCH", "/v1/entries/{id}", {"content": "b"}),
    "edit of a version": ("PATCH", "/v1/entries/{id}", {"content": "b", "if_version": 9}),
    "edit of nothing": ("PATCH", "/v1/entries/{id}", {}),
    "forget": ("DELETE", "/v1/entries/{id}?with_copies=true", None),
    "forget a version": ("DELETE", "/v1/entries/{id}?if_version=9", None),
    "outcome": ("POST", "/v1/learnings/{id}/outcome", {"success": True}),
    "release": ("POST", "/v1/entries/{id}/release", None),
    "explain": ("POST", "/v1/injections/explain", {"entry": "{id}", "query": "a", "namespace": "mine"}),
    "receipt": ("GET", "/v1/injections/{id}", None),
}


async def seen(http: httpx.AsyncClient, route: str, named: str) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers of the reply, without the id that was asked for and that of the request."""
    method, path, body = ID_ROUTES[route]
    if body and "entry" in body:
        body = {**body, "entry": named}
    reply = await http.request(method, path.format(id=named), json=body, headers={"X-Request-Id": "same"})
    return reply.status_code, reply.text.replace(named, "ID"), dict(reply.headers)


@pytest.mark.parametrize("route", ID_ROUTES)
async def test_a_foreign_id_and_a_missing_one_answer_alike(machine: Machine, route: str) -> None:
    foreign = await save(machine.core, key="k", namespace="theirs", content="password", ttl="30d")
    learning = await save(machine.core, "learning", namespace="theirs", trigger="a", fix="b")
    receipt = await machine.receipt(OTHER, "theirs")
    # Errors repeat ids of entries only: one that is missing has to look like one that is there.
    missing_id, foreign_ids = MISSING, [foreign.id, learning.id]
    if route == "receipt":
        missing_id, foreign_ids = f"{receipt[:-4]}0000", [receipt]
    missing = await seen(machine.http, route, missing_id)
    for named in foreign_ids:
        status, text, headers = await seen(machine.http, route, named)
        # Ids of receipts are shorter, and so is the body that repeats one.
        headers["content-length"] = missing[2]["content-length"]
        assert (status, text, headers) == missing
    assert (await machine.core.service.get(foreign.id, OTHER)).content == "password", "nothing was done"


async def test_what_has_expired_elsewhere_is_like_what_never_was(machine: Machine) -> None:
    foreign = await save(machine.core, key="k", namespace="theirs", content="password", ttl="1h")
    machine.clock.now += 7_200_000
    assert await seen(machine.http, "explain", foreign.id) == await seen(machine.http, "explain", MISSING)


async def test_a_damaged_entry_is_as_unknown_as_any_to_others_and_can_be_forgotten_by_its_own(
    machine: Machine,
) -> None:
    mine = await save(machine.core, key="k", namespace="mine", content="a")
    theirs = await save(machine.core, key="k", namespace="theirs", content="a")
    await sqlite_of(machine.core).db.writer.run(lambda conn: conn.execute("UPDATE entries SET content = 'b'"))
    for what in ("versions", "edit", "forget"):
        assert await seen(machine.http, what, theirs.id) == await seen(machine.http, what, MISSING)
    assert (await machine.http.delete(f"/v1/entries/{mine.id}")).status_code == 200


async def test_what_may_be_read_but_not_changed_says_so(machine: Machine) -> None:
    readable = await save(machine.core, key="k", namespace="read", content="a")
    assert (await machine.http.get(f"/v1/entries/{readable.id}")).status_code == 200
    reply = await machine.http.delete(f"/v1/entries/{readable.id}")
    assert reply.status_code == 403
    assert reply.json()["error"]["message"] == "Permission denied: you may not write in the namespace 'read'."


async def test_a_namespace_that_is_not_granted_is_refused_whether_it_exists_or_not(machine: Machine) -> None:
    await save(machine.core, key="k", namespace="theirs", content="a")
    for namespace in ("theirs", "nowhere", "default", "MINE", "mine2"):
        reply = await machine.http.post("/v1/search", json={"query": "a", "namespace": namespace})
        assert reply.status_code == 403
        assert (
            reply.json()["error"]["message"]
            == f"Permission denied: you may not read in the namespace {namespace!r}."
        )


async def test_receipts_are_ones_own(machine: Machine) -> None:
    mine = [await machine.receipt(ME, "mine") for _ in range(3)]
    await machine.receipt(ME, "theirs")
    for _ in range(30):
        await machine.receipt(OTHER, "mine")
    listed = (await machine.http.get("/v1/injections?limit=2")).json()["injections"]
    assert [receipt["id"] for receipt in listed] == [mine[2], mine[1]]
    everything = (await machine.http.get("/v1/injections?limit=1000")).json()["injections"]
    assert len(everything) == 3, "the one of a namespace that is not granted is gone too"


async def test_an_export_of_all_is_one_of_what_is_granted(machine: Machine) -> None:
    for namespace in ("mine", "theirs"):
        await save(machine.core, key="k", namespace=namespace, content=namespace)
    refused = await machine.http.get("/v1/export")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "access_denied")
    named = await machine.http.get("/v1/export?namespace=mine&namespace=team-7")
    assert [each["entry"]["content"] for each in named.json()["entries"]] == ["mine"]
    async with client_of(create_app_for(machine), OTHER) as http:
        await save(machine.core, key="k", namespace="secret", content="secret")
        exported = (await http.get("/v1/export")).json()["entries"]
    assert [each["entry"]["content"] for each in exported] == ["mine", "theirs"]


def create_app_for(machine: Machine) -> Any:
    service = guarded(machine.core.service, machine.core.access_context(machine.grants))
    return create_app(service, Settings(), access=machine.grants)


async def test_the_principal_of_an_entry_is_the_kernels_uid(machine: Machine) -> None:
    body = {"collection": "knowledge", "key": "k", "content": "a", "namespace": "mine", "agent": "root"}
    saved = await machine.http.post("/v1/entries", json=body, headers={"X-Agentctx-Uid": "0"})
    assert (await machine.http.get(f"/v1/entries/{saved.json()['id']}")).json()["principal"] == ME.uid
    pretended = await machine.http.post("/v1/entries", json={**body, "principal": 0})
    assert pretended.status_code == 400
