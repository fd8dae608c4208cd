from __future__ import annotations

import pytest

from tests.server.running import running


@pytest.mark.parametrize(
    ("method", "path", "called"), [("GET", "/v1/doctor", "doctor"), ("POST", "/v1/doctor/fix", "doctor_fix")]
)
async def test_filters_are_passed_on(method: str, path: str, called: str) -> None:
    async with running() as daemon:
        reply = await daemon.http.request(method, path)
        await daemon.http.request(method, f"{path}?only=queue&only=rag.settings&offline=true")
    assert reply.status_code == 200
    assert reply.json()["checks"][0]["id"] == "database.opens"
    assert [(name, wanted) for name, _, wanted in daemon.service.calls] == [
        (called, {"only": None, "offline": False}),
        (called, {"only": ["queue", "rag.settings"], "offline": True}),
    ]


@pytest.mark.parametrize("query", ["fix=true", "offline=maybe", "offline=true&offline=true"])
async def test_an_invalid_query_is_refused(query: str) -> None:
    async with running() as daemon:
        reply = await daemon.http.get(f"/v1/doctor?{query}")
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_input")
        assert daemon.service.calls == []


async def test_get_repairs_nothing() -> None:
    async with running() as daemon:
        assert (await daemon.http.get("/v1/doctor/fix")).status_code == 405
