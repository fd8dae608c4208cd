from __future__ import annotations

import pytest

from agentctx.errors import DeadlineExceeded
from agentctx.wire import ContextRequest, SearchRequest
from tests.server.recording import RecordingService
from tests.server.running import running


async def test_a_search_reaches_the_service_with_its_filters() -> None:
    async with running() as daemon:
        question = {"query": "how", "collections": ["learning"], "limit": 3, "max_distance": 1}
        reply = await daemon.http.post("/v1/search", json=question)
    assert (reply.status_code, reply.json()) == (200, {"results": [], "degraded": None, "rerank": None})
    expected = SearchRequest(query="how", collections=["learning"], limit=3, max_distance=1.0)
    assert daemon.service.calls == [("search", (expected,), {})]


async def test_a_context_keeps_every_character_of_its_block() -> None:
    block = '## Semantic Context (RAG)\n\t"é😀\\'
    async with running(RecordingService(block=block)) as daemon:
        reply = await daemon.http.post("/v1/context", json={"query": "how", "budget_tokens": 9})
    assert reply.json()["block"] == block
    assert daemon.service.calls == [("context", (ContextRequest(query="how", budget_tokens=9),), {})]


@pytest.mark.parametrize("path", ["/v1/search", "/v1/context"])
async def test_a_missed_deadline_is_504(path: str) -> None:
    async with running(RecordingService(error=DeadlineExceeded("late"))) as daemon:
        reply = await daemon.http.post(path, json={"query": "how"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "deadline_exceeded")
