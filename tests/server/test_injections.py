from __future__ import annotations

import pytest

from agentctx.errors import NotFound
from agentctx.wire import ExplainRequest
from tests.server.recording import RecordingService
from tests.server.running import running


async def test_receipts_are_read_one_by_one_or_as_a_list() -> None:
    async with running() as daemon:
        one = await daemon.http.get("/v1/injections/01k0")
        last = await daemon.http.get("/v1/injections", params={"limit": 3})
        usual = await daemon.http.get("/v1/injections")
    assert (one.json()["id"], last.json(), usual.status_code) == ("01k0", {"injections": []}, 200)
    assert daemon.service.calls == [
        ("injection", ("01k0",), {}),
        ("injections", (3,), {}),
        ("injections", (20,), {}),
    ]


@pytest.mark.parametrize("limit", [0, 1_001])
async def test_the_limit_of_a_list_has_bounds(limit: int) -> None:
    async with running() as daemon:
        reply = await daemon.http.get("/v1/injections", params={"limit": limit})
    assert reply.status_code == 400
    assert daemon.service.calls == []


async def test_an_explanation_accepts_the_fields_of_a_context() -> None:
    body = {"entry": "e1", "query": "how", "position": "system", "present": ["a"], "budget_tokens": 9}
    async with running() as daemon:
        reply = await daemon.http.post("/v1/injections/explain", json=body)
    assert reply.json()["verdict"] == "no_match"
    asked = ExplainRequest(entry="e1", query="how", position="system", present=["a"], budget_tokens=9)
    assert daemon.service.calls == [("explain", (asked,), {})]


async def test_an_unknown_receipt_is_404() -> None:
    async with running(RecordingService(error=NotFound("no such receipt"))) as daemon:
        reply = await daemon.http.get("/v1/injections/nope")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")
