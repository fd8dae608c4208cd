"""The latency that agents see: the hook of a prompt, as a command and over MCP, and a search."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentctx.embedding.providers.base import EmbeddingProvider
from benchmarks.daemons import daemon_folder, database_in, started
from benchmarks.embedder import default_embedder
from benchmarks.figures import Figure
from benchmarks.filling import fill
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import interleaved_ms, median, percentile

AGENTCTX = (sys.executable, "-m", "agentctx")


class BenchedBridge:
    """`agentctx mcp` as an agent runs it: one process per session, one call at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)

    async def call(self, tool: str, **arguments: object) -> None:
        """Call a tool and wait for its result. Raises `RuntimeError` if the tool fails."""
        sink, source = self._process.stdin, self._process.stdout
        if sink is None or source is None:
            raise RuntimeError("the bridge was started without pipes")
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": "tools/call", "params": params}
        sink.write(json.dumps(message).encode() + b"\n")
        await sink.drain()
        reply: dict[str, Any] = json.loads(await source.readline())
        if reply["result"]["isError"]:
            raise RuntimeError(reply["result"]["content"][0]["text"])


async def measure(options: Options) -> list[Figure]:
    """Run all of them in turns. No question repeats: a repeated one would need no embedding."""
    entries = options.size(5_000, 1_000)
    async with default_embedder() as provider:
        with daemon_folder() as folder:
            await fill(database_in(folder), provider, TextSource(seed=8), entries)
            async with started(folder) as client, bridge(client.socket) as bridged:
                return await _figures(provider, bridged, client.socket, options.size(200, 40))


async def _figures(
    provider: EmbeddingProvider, bridge: BenchedBridge, socket: Path, rounds: int
) -> list[Figure]:
    texts = TextSource(seed=7)
    bare, command, mcp_tool, search = await interleaved_ms(
        (
            lambda: provider.embed_query(texts.question()),
            lambda: _hook(socket, texts.question()),
            lambda: bridge.call("context", query=texts.question()),
            lambda: bridge.call("search", query=texts.question()),
        ),
        rounds=rounds,
        warm_up=5,
    )
    return [
        Figure(name="bare query embedding, p50", value=median(bare), unit="ms"),
        *_over(bare, "prompt hook as a command", command),
        *_over(bare, "context over MCP, as an mcp_tool hook asks", mcp_tool),
        *_over(bare, "search over MCP", search),
    ]


def _over(bare: Sequence[float], name: str, times: Sequence[float]) -> list[Figure]:
    return [
        Figure(name=f"{name}, p50", value=median(times), unit="ms", baseline=median(bare)),
        Figure(name=f"{name}, p95", value=percentile(times, 95), unit="ms", baseline=percentile(bare, 95)),
    ]


async def _hook(socket: Path, prompt: str) -> None:
    event = {"session_id": prompt, "cwd": "/", "hook_event_name": "UserPromptSubmit", "prompt": prompt}
    await run_hook(socket, "UserPromptSubmit", event)


async def run_hook(socket: Path, event: str, payload: Mapping[str, Any]) -> None:
    """Run a hook as a command, from the start of the process to its exit."""
    words = ("hook", event, "--client", "claude-code", "--socket", str(socket))
    hook = await asyncio.create_subprocess_exec(
        *AGENTCTX, *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    await hook.communicate(json.dumps(payload).encode())


@asynccontextmanager
async def bridge(socket: Path, *more: str) -> AsyncIterator[BenchedBridge]:
    """Run `agentctx mcp` with these further arguments."""
    process = await asyncio.create_subprocess_exec(
        *AGENTCTX,
        *("mcp", "--socket", str(socket), "--namespace", "default", *more),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield BenchedBridge(process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
