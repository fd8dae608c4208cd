"""`strangers`: from an empty home and the wheel to the first correct answer, for three first-time users.

Packages come from the index that pip is configured for. systemd is not used: the units are only printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from benchmarks.figures import Figure, at_most
from benchmarks.options import Options

ROOT = Path(__file__).parent.parent
MOST_S = 180.0
MOST_COMMANDS = 6
MOST_MIB = 280.0
MOST_PACKAGES = 45
_MIB = 2**20
_READY_S = 60.0
_STEP_S = 900.0
"""Far above the bar, so that a slow run yields a figure and not an error."""
_KEPT = re.compile("(PATH|LANG)$|(PIP|SSL|REQUESTS)_")
"""The access to the package index, which is not part of a user's home."""
_BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
_PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_JSON_FILE = re.compile(r"<<'JSON'\n(.*?)^JSON$", re.DOTALL | re.MULTILINE)


@dataclass(slots=True)
class Stranger:
    """A user with an empty home who types commands and waits for each."""

    home: Path
    wheel: Path
    commands: int = 0
    started: float = field(default_factory=monotonic)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if _KEPT.match(name)}
        path = f"{self.home / 'v' / 'bin'}{os.pathsep}{kept.get('PATH', os.defpath)}"
        return {**kept, "PATH": path, "HOME": str(self.home), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def types(self, *command: str, text: str | None = None) -> str:
        """Run one command; return its output."""
        self.commands += 1
        return self.sees(*command, text=text)

    def sees(self, *command: str, text: str | None = None) -> str:
        """Run a command that an agent runs, not the user."""
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=_STEP_S,
            cwd=self.home,
            env=self.environment,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-800:]}")
        return done.stdout

    def installs(self) -> None:
        self.types(sys.executable, "-m", "venv", "v")
        self.types("v/bin/pip", "install", "--quiet", str(self.wheel))

    @contextmanager
    def serves(self) -> Iterator[None]:
        """Run the daemon during the block."""
        self.commands += 1
        with (self.home / "log").open("wb") as log:
            daemon = subprocess.Popen(
                [str(self.home / "v/bin/agentctx"), "serve"],
                env=self.environment,
                cwd=self.home,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_ready()
            yield
        finally:
            daemon.terminate()
            daemon.wait(_READY_S)

    def _wait_ready(self) -> None:
        until = monotonic() + _READY_S
        while monotonic() < until:
            asked = subprocess.run(
                [str(self.home / "v/bin/agentctx"), "status"],
                env=self.environment,
                capture_output=True,
                check=False,
                timeout=_READY_S,
            )
            if asked.returncode == 0:
                return
            sleep(0.2)
        raise RuntimeError(f"the daemon is not ready: {(self.home / 'log').read_text()[-800:]}")


def agent_user(stranger: Stranger) -> str:
    """Connects an agent; one session saves, the next one asks."""
    stranger.installs()
    with stranger.serves():
        stranger.types("v/bin/agentctx", "connect", "codex", "--yes")
        _session(stranger, "save", {"key": "deploys", "content": "Deploys happen on Tuesdays before noon."})
        return _session(stranger, "search", {"query": "when do deploys happen"})


def mem0_engineer(stranger: Stranger) -> str:
    """Imports memories as in docs/how-to/import.md, and asks for one."""
    page = (ROOT / "docs/how-to/import.md").read_text(encoding="utf-8")
    (stranger.home / "mem0.json").write_text(_found(_JSON_FILE, page, 0), encoding="utf-8")
    stranger.installs()
    with stranger.serves():
        stranger.types("v/bin/python", "-", text=_found(_PYTHON_BLOCK, page, 1))
        return stranger.types("v/bin/agentctx", "search", "--namespace", "ann", "what is she allergic to")


def operator(stranger: Stranger) -> str:
    """Writes the units, grants a user access to a namespace, and runs the doctor."""
    stranger.installs()
    program = "v/bin/agentctx"
    stranger.types(program, "service", "install", "--user", "--dry-run")
    config = stranger.home / "config.toml"
    user = pwd.getpwuid(os.getuid()).pw_name
    stranger.types(program, "access", "grant", user, "team", "--config", str(config))
    with stranger.serves():
        return stranger.types(program, "doctor", "--offline")


STRANGERS: dict[str, tuple[Callable[[Stranger], str], str]] = {
    "agent user": (agent_user, "Tuesdays"),
    "mem0 engineer": (mem0_engineer, "peanuts"),
    "operator, without systemd": (operator, "passed"),
}
"""Each user's steps, and a word of the correct answer."""


async def measure(options: Options) -> list[Figure]:
    """Measure each user's seconds and commands, and the size of the last installation."""
    del options
    return await asyncio.to_thread(_measured)


def _measured() -> list[Figure]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="agentctx-strangers-") as scratch:
        wheel = _built(Path(scratch))
        for name, (play, word) in STRANGERS.items():
            home = Path(scratch) / name.split(",")[0].replace(" ", "-")
            home.mkdir()
            stranger = Stranger(home, wheel)
            answer = play(stranger)
            if word not in answer:
                raise RuntimeError(f"{name}: no right answer: {answer}")
            figures += _figures(name, monotonic() - stranger.started, stranger.commands)
        return [*figures, *_installed(home / "v")]


def _figures(name: str, seconds: float, commands: int) -> list[Figure]:
    return [
        Figure(name=f"{name}: to the first answer", value=seconds, unit="s", bar=at_most(MOST_S, "3 min")),
        Figure(name=f"{name}: commands", value=commands, unit="", bar=at_most(MOST_COMMANDS, "6")),
    ]


def _installed(environment: Path) -> list[Figure]:
    """Return the `du -sm` size of a virtual environment that pip filled, and its packages including pip."""
    blocks = sum(path.lstat().st_blocks * 512 for path in (environment, *environment.rglob("*")))
    packages = sum(1 for _ in environment.glob("lib/python*/site-packages/*.dist-info"))
    return [
        Figure(name="installed by pip", value=blocks / _MIB, unit="MiB", bar=at_most(MOST_MIB, "280 MiB")),
        Figure(name="packages", value=packages, unit="", bar=at_most(MOST_PACKAGES, "45")),
    ]


def _built(folder: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=_STEP_S,
    )
    return folder / done.stdout.split()[-1]


def _session(stranger: Stranger, tool: str, arguments: dict[str, object]) -> str:
    """Act as a session of an agent: start the bridge and call one tool."""
    call = {"name": tool, "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    return stranger.sees("v/bin/agentctx", "mcp", text=json.dumps(request) + "\n")


def _found(pattern: re.Pattern[str], page: str, number: int) -> str:
    return str(pattern.findall(page)[number])
