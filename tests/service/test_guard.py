"""An entry a user may not read looks exactly like one that does not exist."""

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
from agentctx.wire import ContextRequest
from agentctx_testing.drafts import ManualClock
from tests.running_core import running_core, save, sqlite_of
from tests.service.access.peers import access_control, client_of, grant

ME, OTHER = Peer(pid=1, uid=8_001, gid=8_001), Peer(pid=1, uid=8_002, gid=8_002)
MISSING = "01900000-0000-7000-8000-000000000007"


@dataclass
class GuardedDaemon:
    core: Core
    http: httpx.AsyncClient
    clock: ManualClock
    grants: Any

    async def make_receipt(self, peer: Peer, namespace: str) -> str:
        question = ContextRequest(query="password", namespace=namespace, position="tail")
        reply = await self.core.questions.context(question, peer)
        assert reply.injection_id is not None
        return reply.injection_id


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[GuardedDaemon]:
    """The daemon as seen by `ME`, who may only write in `mine` and read in `read` and `team-*`."""
    clock = ManualClock()
    access = access_control(
        grant("write", "mine", uid=ME.uid),
        grant("read", "read", "team-*", uid=ME.uid),
        grant("write", "mine", "theirs", uid=OTHER.uid),
    )
    async with (
        running_core(tmp_path, None, clock=clock) as core,
        client_of(create_app(core, core.guard(access), Settings()), ME) as http,
    ):
        yield GuardedDaemon(core, http, clock, access)


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
    "keep": ("POST", "/v1/entries/{id}/keep", {"way": "terminal", "version": 1}),
    "explain": ("POST", "/v1/injections/explain", {"entry": "{id}", "query": "a", "namespace": "mine"}),
    "receipt": ("GET", "/v1/injections/{id}", None),
}


async def response(http: httpx.AsyncClient, route: str, entry_id: str) -> tuple[int, str, dict[str, str]]:
    """Return the response's status, body and headers, without the requested id and the request's own."""
    method, path, body = ID_ROUTES[route]
    if body and "entry" in body:
        body = {**body, "entry": entry_id}
    reply = await http.request(method, path.format(id=entry_id), json=body, headers={"X-Request-Id": "same"})
    return reply.status_code, reply.text.replace(entry_id, "ID"), dict(reply.headers)


@pytest.mark.parametrize("route", ID_ROUTES)
async def test_foreign_and_missing_ids_get_the_same_response(daemon: GuardedDaemon, route: str) -> None:
    foreign = await save(daemon.core, key="k", namespace="theirs", content="password", ttl="30d")
    learning = await save(daemon.core, "learning", namespace="theirs", trigger="a", fix="b")
    receipt = await daemon.make_receipt(OTHER, "theirs")
    # Errors repeat only ids of entries: a missing one has to look like an existing one.
    missing_id, foreign_ids = MISSING, [foreign.id, learning.id]
    if route == "receipt":
        missing_id, foreign_ids = f"{receipt[:-4]}0000", [receipt]
    missing = await response(daemon.http, route, missing_id)
    for named in foreign_ids:
        status, text, headers = await response(daemon.http, route, named)
        # Ids of receipts are shorter, and so is a body that repeats one.
        headers["content-length"] = missing[2]["content-length"]
        assert (status, text, headers) == missing
    assert (await daemon.core.entries.get(foreign.id, OTHER)).content == "password", (
        "the entry was left alone"
    )


async def test_a_foreign_expired_entry_looks_like_a_missing_one(daemon: GuardedDaemon) -> None:
    foreign = await save(daemon.core, key="k", namespace="theirs", content="password", ttl="1h")
    daemon.clock.now += 7_200_000
    assert await response(daemon.http, "explain", foreign.id) == await response(
        daemon.http, "explain", MISSING
    )


async def test_a_damaged_entry_looks_missing_to_others_and_can_be_forgotten_by_its_owner(
    daemon: GuardedDaemon,
) -> None:
    mine = await save(daemon.core, key="k", namespace="mine", content="a")
    theirs = await save(daemon.core, key="k", namespace="theirs", content="a")
    await sqlite_of(daemon.core).db.writer.run(lambda conn: conn.execute("UPDATE entries SET content = 'b'"))
    for what in ("versions", "edit", "forget"):
        assert await response(daemon.http, what, theirs.id) == await response(daemon.http, what, MISSING)
    assert (await daemon.http.delete(f"/v1/entries/{mine.id}")).status_code == 200


async def test_a_read_only_entry_says_that_it_may_not_be_changed(daemon: GuardedDaemon) -> None:
    readable = await save(daemon.core, key="k", namespace="read", content="a")
    assert (await daemon.http.get(f"/v1/entries/{readable.id}")).status_code == 200
    reply = await daemon.http.delete(f"/v1/entries/{readable.id}")
    assert reply.status_code == 403
    assert reply.json()["error"]["message"] == "Permission denied: you may not write in the namespace 'read'."


async def test_an_ungranted_namespace_is_refused_whether_it_exists_or_not(daemon: GuardedDaemon) -> None:
    await save(daemon.core, key="k", namespace="theirs", content="a")
    for namespace in ("theirs", "nowhere", "default", "MINE", "mine2"):
        reply = await daemon.http.post("/v1/search", json={"query": "a", "namespace": namespace})
        assert reply.status_code == 403
        assert (
            reply.json()["error"]["message"]
            == f"Permission denied: you may not read in the namespace {namespace!r}."
        )


async def test_users_see_only_their_own_receipts(daemon: GuardedDaemon) -> None:
    mine = [await daemon.make_receipt(ME, "mine") for _ in range(3)]
    await daemon.make_receipt(ME, "theirs")
    for _ in range(30):
        await daemon.make_receipt(OTHER, "mine")
    listed = (await daemon.http.get("/v1/injections?limit=2")).json()["injections"]
    assert [receipt["id"] for receipt in listed] == [mine[2], mine[1]]
    everything = (await daemon.http.get("/v1/injections?limit=1000")).json()["injections"]
    assert len(everything) == 3, "the receipt of the namespace that is not granted is hidden, too"


async def test_an_export_contains_only_granted_namespaces(daemon: GuardedDaemon) -> None:
    for namespace in ("mine", "theirs"):
        await save(daemon.core, key="k", namespace=namespace, content=namespace)
    refused = await daemon.http.get("/v1/export")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "access_denied")
    named = await daemon.http.get("/v1/export?namespace=mine&namespace=team-7")
    assert [each["entry"]["content"] for each in named.json()["entries"]] == ["mine"]
    async with client_of(create_app_for(daemon), OTHER) as http:
        await save(daemon.core, key="k", namespace="secret", content="secret")
        exported = (await http.get("/v1/export")).json()["entries"]
    assert [each["entry"]["content"] for each in exported] == ["mine", "theirs"]


def create_app_for(daemon: GuardedDaemon) -> Any:
    return create_app(daemon.core, daemon.core.guard(daemon.grants), Settings())


async def test_an_entrys_principal_is_the_uid_from_the_kernel(daemon: GuardedDaemon) -> None:
    body = {"collection": "knowledge", "key": "k", "content": "a", "namespace": "mine", "agent": "root"}
    saved = await daemon.http.post("/v1/entries", json=body, headers={"X-Agentctx-Uid": "0"})
    assert (await daemon.http.get(f"/v1/entries/{saved.json()['id']}")).json()["principal"] == ME.uid
    pretended = await daemon.http.post("/v1/entries", json={**body, "principal": 0})
    assert pretended.status_code == 400


async def test_only_readable_namespaces_are_counted(daemon: GuardedDaemon) -> None:
    for namespace in ("mine", "read", "team-a", "team-b", "theirs", "teams"):
        await save(daemon.core, key="k", content="x", namespace=namespace)
    found = (await daemon.http.get("/v1/namespaces")).json()
    names = ["mine", "read", "team-a", "team-b"]
    assert found == {"namespaces": [{"namespace": each, "entries": 1} for each in names], "more": 0}


async def test_a_namespace_is_forgotten_by_those_who_may_write_in_it(daemon: GuardedDaemon) -> None:
    for namespace in ("mine", "read", "theirs"):
        await save(daemon.core, key="k", content="x", namespace=namespace)
    asked = {name: await daemon.http.delete(f"/v1/entries?namespace={name}") for name in ("read", "theirs")}
    assert {name: reply.status_code for name, reply in asked.items()} == {"read": 403, "theirs": 403}
    for path in ("/v1/entries", "/v1/entries?namespace=", "/v1/entries?namespace=mine&key=k"):
        assert (await daemon.http.delete(path)).is_client_error, path
    assert (await daemon.http.delete("/v1/entries/?namespace=mine")).status_code == 404
    assert (await daemon.http.delete("/v1/entries?namespace=mine")).json()["entries"] == 1
    left = await daemon.core.storage.entries.count_by_namespace()
    assert left == {"read": 1, "theirs": 1}
