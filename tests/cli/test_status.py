import json
from collections.abc import Callable
from dataclasses import asdict

import pytest

from agentctx.cli.status import status_lines
from agentctx.wire import ProviderStatus
from tests.client.stub_daemon import StubDaemon, status_reply


def test_status_is_aligned_and_json_is_the_wires(
    agentctx: Callable[..., int], daemon: StubDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answer("GET", "/v1/status", (200, status_reply()))

    assert agentctx("status") == 0
    assert capsys.readouterr().out.splitlines() == [
        "daemon    0.1.0, pid 4711, up 62 min",
        "socket    /run/agentctx/agentctx.sock",
        "entries   6 knowledge, 3 learning",
        "chunks    9, 8 vectors",
        "provider  embedded all-MiniLM-L6-v2, 384 dimensions, ok",
        "queue     3 pending, 1 buried, oldest 12 s",
        "database  /var/lib/agentctx/agentctx.db",
        "          SQLite 3.53.4, 12 commits",
        "          1.2 MB, WAL 4.1 kB",
        "process   120.0 MB of memory, 1.2 s of CPU, 0.3 s of it for embedding",
    ]
    assert agentctx("status", "--json") == 0
    assert json.loads(capsys.readouterr().out) == asdict(status_reply())


def test_a_degraded_provider_says_why_and_an_empty_daemon_says_none() -> None:
    provider = ProviderStatus(id="openai", model="", dimension=0, state="degraded", reason="401")

    lines = status_lines(status_reply(provider=provider, entries={}))

    assert "provider  openai, degraded: 401" in lines
    assert "entries   none" in lines
