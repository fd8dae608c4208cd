"""The routes for changing the model."""

from __future__ import annotations

import pytest

from tests.server.running import running


async def test_the_status_is_reported() -> None:
    async with running() as daemon:
        reply = await daemon.http.get("/v1/reembed")
    assert (reply.status_code, reply.json()["stage"]) == (200, "off")


@pytest.mark.parametrize("action", ["approve", "switch", "rollback", "retire"])
async def test_an_action_is_passed_on(action: str) -> None:
    async with running() as daemon:
        reply = await daemon.http.post(f"/v1/reembed/{action}")
    assert (reply.status_code, reply.json()["stage"]) == (200, "kept")
    assert daemon.service.calls[-1][:2] == ("reembed", (action,))


async def test_any_other_action_is_refused() -> None:
    async with running() as daemon:
        reply = await daemon.http.post("/v1/reembed/forget")
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_input")
