"""A home with one agent, connected to its own daemon, with a fake vendor."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agentctx_testing.fake_provider import serving
from agentctx_testing.fake_provider.serving import FakeProviderServer
from tests.end_to_end.daemon_process import DaemonProcess
from tests.ports import free_port
from tests.real_agents.real_agents import RealAgent
from tests.real_agents.wires import Body

LIMIT_S: Final = 150.0
"""Limit for one turn; the slowest takes 10 s on an idle machine, and 100 s on a busy one."""
_ROOT: Final = Path(__file__).parents[2]
_NOBODY: Final = "http://127.0.0.1:9"
"""A proxy that refuses everything, so that an agent reaches no other address."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of one turn: the agent's output, and the conversation's requests."""

    printed: str
    requests: list[Body] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """The environment in which a test works with one agent."""

    agent: RealAgent
    home: Path
    vendor: FakeProviderServer
    daemon: DaemonProcess
    env: dict[str, str]
    is_wrapped: bool = False
    """Whether `agentctx wrap` starts the agent."""

    @property
    def project(self) -> Path:
        return self.home / "project"

    async def agentctx(self, *args: str) -> str:
        """Run one of our commands; return its output."""
        command = [str(self.home / "bin/agentctx"), "--socket", str(self.daemon.socket), *args]
        return await self._run(command, self.env)

    async def connect(self, *options: str) -> None:
        await self.agentctx("connect", self.agent.name, "--yes", *options)

    async def turn(self, prompt: str, *, resumes: bool = False) -> Turn:
        """Run one turn of a new session, or of the latest one."""
        program = self.agent.path()
        assert program is not None
        before = len(self.vendor.requests)
        command = [str(program), *self.agent.arguments(prompt, resumes=resumes)]
        if self.is_wrapped:
            ours = [str(self.home / "bin/agentctx"), "--socket", str(self.daemon.socket), "wrap", "--"]
            command = [*ours, *command]
        printed = await self._run(command, self.env)
        bodies = [seen.payload for seen in self.vendor.requests[before:]]
        return Turn(printed, [body for body in bodies if isinstance(body, dict) and self.agent.is_turn(body)])

    async def _run(self, command: list[str], env: dict[str, str]) -> str:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.project,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
        finally:
            _kill_group(process.pid)
            await process.wait()
        assert process.returncode == 0, output.decode(errors="replace")[-4_000:]
        return output.decode(errors="replace")


@asynccontextmanager
async def workshop(agent: RealAgent, home: Path, *, wrapped: bool = False) -> AsyncIterator[Workshop]:
    """`home` is an empty folder. The agent is configured for the fake vendor, or `wrapped` for its own."""
    (home / "project").mkdir()
    _install_ours(home)
    async with serving.running() as vendor:
        daemon = DaemonProcess(home, config=_config(vendor))
        try:
            await asyncio.to_thread(daemon.start)
            env = _environment(home) | agent.settle(home, None if wrapped else vendor.base_url(agent.vendor))
            yield Workshop(agent=agent, home=home, vendor=vendor, daemon=daemon, env=env, is_wrapped=wrapped)
        finally:
            await asyncio.to_thread(daemon.end)


def _config(vendor: FakeProviderServer) -> str:
    """The proxy forwards to the fake vendor. Even on a busy machine every call must get its context."""
    return f"""
[injection]
deadline_ms = 60000
[proxy]
tcp_port = {free_port()}
openai_url = "{vendor.url}/openai"
anthropic_url = "{vendor.url}/anthropic"
gemini_url = "{vendor.url}/google"
"""


def _environment(home: Path) -> dict[str, str]:
    path = f"{home / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    dead = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NOBODY)
    local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    return {"PATH": path, "HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8", **dead, **local}


def _install_ours(home: Path) -> None:
    """The command as installed, of this source: agents get its path and few variables."""
    program = home / "bin/agentctx"
    program.parent.mkdir()
    lines = [f"#!{sys.executable}", "import sys", f"sys.path.insert(0, {str(_ROOT)!r})"]
    lines += ["from agentctx.cli import main", "sys.exit(main())", ""]
    program.write_text("\n".join(lines), encoding="utf-8")
    program.chmod(0o755)


def _kill_group(pid: int) -> None:
    """End the processes that the program left running."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
