"""A daemon in a separate process, scraped over its socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.daemon_process import DaemonProcess
from tests.service.telemetry.scraped import Scraped, scraped


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    running = DaemonProcess(tmp_path, config='[embedding]\nprovider = "fake"\n').start()
    yield running
    running.end()


def test_a_daemon_is_scraped_and_its_errors_can_be_looked_up(daemon: DaemonProcess) -> None:
    transport = httpx.HTTPTransport(uds=str(daemon.socket))
    with httpx.Client(transport=transport, base_url="http://agentctx", trust_env=False) as http:
        saved = http.post("/v1/entries", json={"collection": "knowledge", "key": "k", "content": "x"})
        assert saved.status_code == 201
        failed = http.get("/v1/entries/none")
        assert failed.json()["error"]["request_id"] == failed.headers["x-request-id"]
        found: Scraped = scraped(http.get("/metrics").content)
    assert found['agentctx_saves_total{change="created",collection="knowledge"}'] == 1
    assert found['agentctx_http_requests_total{method="POST",route="/v1/entries",status="2xx"}'] == 1
    assert found["agentctx_database_bytes"] > 0
    assert found["process_cpu_seconds_total"] > 0
    with daemon.client() as client:
        status = client.status()
    assert status.activity.saved == 1
    assert status.activity.save is not None
    assert status.activity.save.p50_ms > 0
