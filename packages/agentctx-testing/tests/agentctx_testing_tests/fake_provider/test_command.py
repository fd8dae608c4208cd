from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.config.load import load_settings
from agentctx_testing.fake_provider.command import announcement
from agentctx_testing.fake_provider.serving import FakeProviderServer

STOP_S = 20.0


@pytest.fixture
def started() -> Iterator[subprocess.Popen[str]]:
    """Run `agentctx dev fake-provider` in another process, with one fault and short vectors."""
    command = [sys.executable, "-m", "agentctx", "dev", "fake-provider"]
    options = ["--dimension", "3", "--fault", "503,request=1"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def embed(url: str) -> tuple[int, int]:
    """Return the status and, on success, the length of the vector."""
    body = json.dumps({"model": "m", "input": "a"}).encode()
    request = urllib.request.Request(f"{url}/ollama/api/embed", body)  # noqa: S310  # a URL of the test's own
    try:
        with urllib.request.urlopen(request, timeout=STOP_S) as reply:  # noqa: S310  # the same
            return reply.status, len(json.load(reply)["embeddings"][0])
    except urllib.error.HTTPError as error:
        with error:
            return error.code, 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_interrupted(started: subprocess.Popen[str], number: int) -> None:
    assert started.stdout is not None
    first = started.stdout.readline()
    assert first.startswith("listening on http://127.0.0.1:")
    url = first.split()[2].rstrip(";")
    assert embed(url) == (503, 0)
    assert embed(url) == (200, 3)
    started.send_signal(number)
    assert started.wait(STOP_S) == 0


def test_the_example_configs_are_valid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    server = FakeProviderServer(port=4_321)
    configs = "\n".join(announcement(server)).split("[embedding]")[1:]
    providers = []
    for config in configs:
        text = "[embedding]" + config.split("\n\n")[0]
        file = tmp_path / "agentctx.toml"
        file.write_text(text, encoding="utf-8")
        settings = load_settings(file, {}).embedding
        providers.append(settings.provider)
        assert settings.base_url == server.base_url(settings.provider)
        assert tomllib.loads(text)["embedding"]["model"]
    assert providers == ["openai", "openai-compatible", "google", "ollama", "cohere", "voyage"]


def test_a_port_in_use_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run(["dev", "fake-provider", "--port", str(port)]) == 2
    assert f"Cannot listen on 127.0.0.1 port {port}" in capsys.readouterr().err


def test_an_unknown_fault_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dev", "fake-provider", "--fault", "burn"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: Invalid fault 'burn': unknown kind 'burn'")
