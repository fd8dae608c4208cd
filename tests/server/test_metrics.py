from __future__ import annotations

from tests.server.running import running


async def test_the_page_has_the_content_type_that_scrapers_expect() -> None:
    async with running() as daemon:
        reply = await daemon.http.get("/metrics")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert reply.text == "agentctx_queue_pending 0.0\n"


async def test_only_get_is_allowed() -> None:
    async with running() as daemon:
        reply = await daemon.http.post("/metrics")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD")
