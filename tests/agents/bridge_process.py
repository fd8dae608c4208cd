"""A bridge in a separate process, as an agent starts it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LIMIT_S = 60.0


class BridgeProcess:
    """`agentctx mcp`, with a reader of its replies."""

    def __init__(
        self,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        program: str = "agentctx",
    ) -> None:
        command = [sys.executable, "-m", *program.split(), *args]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            cwd=cwd,
        )
        self._replies: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._next = 0

    def send(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        reply = self._replies.get(timeout=LIMIT_S)
        assert reply is not None, self._process.stderr and self._process.stderr.read()
        return reply

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self._next += 1
        self.send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params or {}})
        reply = self.receive()
        assert reply["id"] == self._next
        return reply

    def tool(self, name: str, **arguments: object) -> tuple[str, bool]:
        """The text of a tool's outcome, and whether it failed."""
        result = self.ask("tools/call", {"name": name, "arguments": arguments})["result"]
        (content,) = result["content"]
        return content["text"], result["isError"]

    def end(self) -> int:
        """Close stdin, as a client does, and wait for the exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._replies.put(json.loads(line))
        self._replies.put(None)


def stripped_environment(home: Path) -> dict[str, str]:
    """The part of the environment that agents' SDKs keep, and what the tests need to import the program."""
    kept = {"PATH": os.environ["PATH"], "HOME": str(home), "USER": "ann", "TERM": "dumb"}
    return kept | {"PYTHONPATH": str(Path(__file__).parents[2])}
