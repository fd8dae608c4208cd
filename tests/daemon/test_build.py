from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctx.config.schema import Settings, TelemetrySettings
from agentctx.daemon import run as run_module
from agentctx.daemon.build import open_telemetry
from agentctx.errors import ConfigInvalid

TRACES = TelemetrySettings(traces="otlp")


async def test_without_traces_the_recorder_is_the_only_listener() -> None:
    async with open_telemetry(TelemetrySettings(), None) as (telemetry, recorder):
        assert telemetry is recorder


async def test_traces_without_opentelemetry_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "agentctx.service.telemetry.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigInvalid) as caught:
        async with open_telemetry(TRACES, None):
            pass
    assert "opentelemetry-sdk" in caught.value.hint
    assert "telemetry.traces" in caught.value.message


async def test_traces_are_added_to_the_recorder() -> None:
    settings = TelemetrySettings(traces="otlp", endpoint="http://127.0.0.1:9")
    async with open_telemetry(settings, None) as (telemetry, recorder):
        telemetry.committed(0.5, 2)
        assert recorder.samples() != {}
        assert telemetry is not recorder


@pytest.mark.parametrize("endpoint", ["localhost:4318", "grpc://localhost:4317", "unix:///x"])
def test_a_trace_endpoint_must_be_a_web_address(endpoint: str) -> None:
    with pytest.raises(ValueError, match="http://"):
        TelemetrySettings(endpoint=endpoint)


@pytest.mark.usefixtures("own_state_home")
async def test_the_event_loop_is_watched_while_the_daemon_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = asyncio.Event()

    async def watch(lagged: Callable[[float], None]) -> None:
        lagged(0.0)
        stop.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(run_module, "watch_loop", watch)
    off = {"embedding": {"provider": "none"}}
    settings = Settings.model_validate({"data_dir": tmp_path, "socket": tmp_path / "a.sock", **off})
    async with asyncio.timeout(10):
        await run_module.run(settings, stop=stop)
