from __future__ import annotations

from tests.server.recording import RecordingService
from tests.server.running import running


async def test_healthz_answers_get_and_post_even_if_not_ready() -> None:
    async with running(RecordingService(reason="starting")) as daemon:
        replies = [await daemon.http.get("/healthz"), await daemon.http.post("/healthz", content=b"x")]
    assert [(reply.status_code, reply.json()) for reply in replies] == [(200, {"status": "ok"})] * 2


async def test_readyz_says_why_it_is_not_ready() -> None:
    async with running(RecordingService(reason="The database is being checked.")) as daemon:
        unready = await daemon.http.get("/readyz")
        daemon.service.reason = None
        ready = await daemon.http.get("/readyz")
    assert unready.status_code == 503
    assert unready.json()["error"]["code"] == "unavailable"
    assert unready.json()["error"]["message"] == "The database is being checked."
    assert ready.status_code == 200
    assert ready.json() == {"status": "ok", "degraded": [], "reasons": {}}


async def test_readyz_lists_degradations_without_failing() -> None:
    service = RecordingService(degradations={"embeddings": "the model has not answered yet"})
    async with running(service) as daemon:
        reply = await daemon.http.get("/readyz")
    assert reply.status_code == 200
    assert reply.json() == {
        "status": "ok",
        "degraded": ["embeddings"],
        "reasons": {"embeddings": "the model has not answered yet"},
    }
