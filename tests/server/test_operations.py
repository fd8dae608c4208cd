from __future__ import annotations

from tests.server.running import running


async def test_status_queue_and_retry() -> None:
    async with running() as daemon:
        status = await daemon.http.get("/v1/status")
        queue = await daemon.http.get("/v1/queue")
        retry = await daemon.http.post("/v1/queue/retry")
    assert status.json()["provider"]["state"] == "off"
    assert queue.json() == {"pending": 0, "buried": 0, "oldest_seconds": 0.0, "buried_jobs": []}
    assert retry.json() == {"retried": 2}
