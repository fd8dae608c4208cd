from __future__ import annotations

import os
from typing import Any

import httpx
import pytest

from agentctx.config.schema import LimitSettings
from agentctx.errors import IdempotencyKeyReused, InvalidInput, NotFound, StorageFull, VersionConflict
from agentctx.wire import EditRequest, OutcomeRequest, SaveRequest, SaveResult
from tests.server.recording import RecordingService
from tests.server.running import running

ONE = {"collection": "knowledge", "content": "a", "key": "k"}


async def test_a_change_is_201_and_no_change_is_200() -> None:
    async with running() as daemon:
        changed = await daemon.http.post("/v1/entries", json=ONE)
        daemon.service.outcomes = [SaveResult(id="e1", version=1, changed=False)]
        unchanged = await daemon.http.post("/v1/entries", json=ONE)
    assert (changed.status_code, unchanged.status_code) == (201, 200)
    expected = {
        "id": "e1",
        "version": 1,
        "changed": True,
        "redacted": [],
        "flags": [],
        "quarantined": False,
        "superseded_by": [],
        "embedding": "pending",
    }
    assert changed.json() == expected
    assert daemon.service.calls[0] == (
        "save",
        ([SaveRequest(collection="knowledge", content="a", key="k")],),
        {"idempotency_key": None},
    )


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidInput("a"), 400),
        (VersionConflict("b"), 409),
        (IdempotencyKeyReused("c"), 409),
        (StorageFull("d"), 507),
    ],
)
async def test_a_single_failed_entry_is_an_error_reply(error: InvalidInput, status: int) -> None:
    async with running(RecordingService(outcomes=[error])) as daemon:
        reply = await daemon.http.post("/v1/entries", json=ONE)
    assert reply.status_code == status
    assert reply.json() == {
        "error": {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "request_id": reply.headers["x-request-id"],
        }
    }


async def test_each_of_many_entries_has_a_result_or_an_error() -> None:
    done = SaveResult(id="e1", version=2, changed=False)
    service = RecordingService(outcomes=[done, VersionConflict("stale")])
    async with running(service) as daemon:
        reply = await daemon.http.post("/v1/entries", json={"entries": [ONE, ONE]})
    assert reply.status_code == 200
    first, second = reply.json()["results"]
    assert (first["id"], first["version"], first["changed"]) == ("e1", 2, False)
    assert (second["error"]["code"], second["error"]["message"]) == ("version_conflict", "stale")
    assert len(service.calls[0][1][0]) == 2


async def test_too_many_entries_are_refused_before_they_reach_the_service() -> None:
    async with running(limits=LimitSettings(max_entries_per_request=2)) as daemon:
        reply = await daemon.http.post("/v1/entries", json={"entries": [ONE] * 3})
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")
    assert daemon.service.calls == []


async def test_an_invalid_entry_among_many_is_named() -> None:
    async with running() as daemon:
        reply = await daemon.http.post("/v1/entries", json={"entries": [ONE, {"content": 1}]})
    assert reply.status_code == 400
    assert reply.json()["error"]["message"] == (
        "`entries[1].collection` is missing; `entries[1].content` must be a string."
    )


async def test_the_idempotency_key_is_passed_on() -> None:
    async with running() as daemon:
        await daemon.http.post("/v1/entries", json=ONE, headers={"Idempotency-Key": "abc-1"})
    assert daemon.service.calls[0][2] == {"idempotency_key": "abc-1"}


@pytest.mark.parametrize("key", ["", "a b", "a" * 256])
async def test_an_invalid_idempotency_key_is_refused(key: str) -> None:
    async with running() as daemon:
        reply = await daemon.http.post("/v1/entries", json=ONE, headers={"Idempotency-Key": key})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_input")
    assert daemon.service.calls == []


@pytest.mark.parametrize(
    "content_type",
    ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", "nonsense", None],
)
async def test_the_body_is_json_whatever_the_content_type(content_type: str | None) -> None:
    headers = {"content-type": content_type} if content_type else {}
    async with running() as daemon:
        reply = await daemon.http.post("/v1/entries", content=b'{"collection":"knowledge"}', headers=headers)
    assert reply.status_code == 201


async def test_lists_accept_defaults_and_every_filter() -> None:
    async with running() as daemon:
        assert (await daemon.http.get("/v1/entries")).json()["next"] is None
        query = "namespace=n&collection=knowledge&collection=learning&session=s&limit=500&cursor=c"
        assert (await daemon.http.get(f"/v1/entries?{query}")).status_code == 200
        query = "key_prefix=/d/&content=false&limit=1000"
        assert (await daemon.http.get(f"/v1/entries?{query}")).status_code == 200
        query = "agent=a&category=rule&tag=x&tag=y&since=7d&until=1d&key=k"
        assert (await daemon.http.get(f"/v1/entries?{query}")).status_code == 200
    flags = {"content": True, "withdrawn": False, "marked": False, "include_superseded": False}
    defaults = {"namespace": "default", "limit": 50, **flags}
    given = [
        {name: value for name, value in wanted.items() if value is not None}
        for _, _, wanted in daemon.service.calls
    ]
    assert given == [
        defaults,
        {
            **defaults,
            "namespace": "n",
            "collection": ["knowledge", "learning"],
            "session": "s",
            "limit": 500,
            "cursor": "c",
        },
        {**defaults, "key_prefix": "/d/", "content": False, "limit": 1000},
        {
            **defaults,
            "agent": "a",
            "category": "rule",
            "tag": ["x", "y"],
            "since": "7d",
            "until": "1d",
            "key": "k",
        },
    ]


async def test_routes_by_id_are_passed_on() -> None:
    async with running() as daemon:
        replies = [
            await daemon.http.get("/v1/entries/e1?version=3"),
            await daemon.http.patch("/v1/entries/e1", json={"content": "b", "if_version": 3}),
            await daemon.http.delete("/v1/entries/e1?if_version=4&with_copies=true"),
            await daemon.http.get("/v1/entries/e1/versions", params={"limit": 2, "cursor": "7"}),
            await daemon.http.post("/v1/learnings/e1/outcome", json={"success": False}),
        ]
    assert [reply.status_code for reply in replies] == [200] * 5
    assert replies[0].json()["content"] == "a"
    assert replies[2].json().items() >= {"id": "e1", "versions": 1}.items()
    assert daemon.service.calls == [
        ("get", ("e1",), {"version": 3}),
        ("edit", ("e1", EditRequest(content="b", if_version=3)), {}),
        ("forget", ("e1",), {"if_version": 4, "with_copies": True}),
        ("versions", ("e1",), {"limit": 2, "cursor": "7"}),
        ("outcome", ("e1", OutcomeRequest(success=False)), {}),
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"fix": None, "content": "b"}, EditRequest(content="b", clear=["fix"])),
        ({"source": None, "clear": ["fix"]}, EditRequest(clear=["fix", "source"])),
        ({"content": "b", "clear": []}, EditRequest(content="b")),
        ({"content": "b", "clear": None, "ttl": None}, EditRequest(content="b", clear=["ttl"])),
        ({"content": "b", "if_version": None, "wait": None}, EditRequest(content="b")),
    ],
)
async def test_null_in_an_edit_clears_a_field(body: dict[str, Any], expected: EditRequest) -> None:
    async with running() as daemon:
        reply = await daemon.http.patch("/v1/entries/e1", json=body)
    assert (reply.status_code, daemon.service.calls) == (200, [("edit", ("e1", expected), {})])


@pytest.mark.parametrize("body", [{"clear": ["id"]}, {"clear": "fix"}, {"clear": {}}, {"fix": 1}, []])
async def test_an_edit_of_another_shape_is_refused(body: Any) -> None:
    async with running() as daemon:
        reply = await daemon.http.patch("/v1/entries/e1", json=body)
    assert (reply.status_code, daemon.service.calls) == (400, [])


async def test_an_unknown_entry_is_404() -> None:
    async with running(RecordingService(error=NotFound("No entry e9."))) as daemon:
        reply = await daemon.http.get("/v1/entries/e9")
    assert (reply.status_code, reply.json()["error"]["message"]) == (404, "No entry e9.")


BAD_QUERIES: dict[str, tuple[str, str]] = {
    "unknown": ("/v1/entries?colour=red", "Unknown parameter `colour`."),
    "on a route without any": ("/v1/status?x=1", "Unknown parameter `x`."),
    "twice": ("/v1/entries?limit=1&limit=2", "The parameter `limit` appears twice."),
    "not a number": ("/v1/entries?limit=many", "parameter `limit` must be an integer."),
    "empty": ("/v1/entries?limit=", "parameter `limit` must be an integer."),
    "too small": ("/v1/entries?limit=0", "parameter `limit` must be at least 1."),
    "too large": ("/v1/entries?limit=1001", "parameter `limit` must be at most 1000."),
    "65 bits": (
        "/v1/entries/e1?version=9223372036854775808",
        "parameter `version` must be at most 9223372036854775807.",
    ),
    "5000 digits": (f"/v1/entries/e1?version={'9' * 5_000}", "parameter `version`"),
    "not utf-8": ("/v1/entries?session=%ff", "not valid text"),
    "surrogate": ("/v1/entries?session=%ed%a0%80", "not valid text"),
    "NUL": ("/v1/entries?session=%00", "not valid text"),
    "NUL in the path": ("/v1/entries/%00", "not valid text"),
    "path not utf-8": ("/v1/entries/%ff", "not valid text"),
}


@pytest.mark.parametrize(("url", "words"), BAD_QUERIES.values(), ids=BAD_QUERIES)
async def test_an_invalid_query_is_400_and_says_why(url: str, words: str) -> None:
    async with running() as daemon:
        reply = await daemon.http.get(url)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_input")
    assert words in reply.json()["error"]["message"]
    assert daemon.service.calls == []


def _forged_peer_headers() -> dict[str, Any]:
    return {"X-Peer-Uid": "0", "X-Forwarded-User": "root", "X-Remote-User": "root", "Forwarded": "for=0"}


async def test_the_peer_is_the_one_the_kernel_reports() -> None:
    async with running() as daemon:
        reply: httpx.Response = await daemon.http.get("/v1/entries", headers=_forged_peer_headers())
        assert reply.status_code == 200
        await daemon.http.post("/v1/entries", json=ONE, headers=_forged_peer_headers())
    uids = {(peer.pid, peer.uid, peer.gid) for peer in daemon.service.peers}
    assert uids == {(os.getpid(), os.getuid(), os.getgid())}
