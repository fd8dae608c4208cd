"""Programs whose LLM calls go through the proxy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from agentctx.cli.wrap import variables
from agentctx.wire import ProxyStatus
from tests.end_to_end.daemon_process import DaemonProcess
from tests.ports import free_port

SHOW = "import os, sys; print(os.environ['OPENAI_BASE_URL']); sys.exit(7)"

OFF = '[embedding]\nprovider = "none"\n'


def wrap(daemon: DaemonProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentctx", "--socket", str(daemon.socket), "wrap", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_wrap_passes_addresses_and_returns_the_exit_code(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    port = free_port()
    daemon = make_daemon(config=f"{OFF}[proxy]\ntcp_port = {port}\n").start()
    done = wrap(daemon, "--", sys.executable, "-c", SHOW)
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith(f"http://127.0.0.1:{port}/t/")
    missing = wrap(daemon, "--", "no-such-program")
    assert (missing.returncode, "no-such-program" in missing.stderr) == (127, True)


def test_wrap_without_a_port_says_how_to_configure_one(make_daemon: Callable[..., DaemonProcess]) -> None:
    done = wrap(make_daemon(config=OFF).start(), "--", "true")
    assert (done.returncode, "proxy.tcp_port" in done.stderr) == (1, True)


def test_session_and_agent_accompany_the_calls() -> None:
    proxy = ProxyStatus(port=18181, token_file="/none")
    plain = variables(proxy, "token")
    assert "OPENAI_CUSTOM_HEADERS" not in plain
    assert plain["OLLAMA_HOST"] == "http://127.0.0.1:18181/t/token/proxy/ollama"
    assert plain["GEMINI_API_BASE"] == "http://127.0.0.1:18181/t/token/proxy/gemini/v1beta"
    tagged = variables(proxy, "token", session="s", agent="a")
    assert tagged["ANTHROPIC_CUSTOM_HEADERS"] == "X-Agentctx-Session: s\nX-Agentctx-Agent: a"
