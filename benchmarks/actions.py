"""What hooks give before an action and after a failure, through a daemon, and what they cost.

A world is a folder with memories, actions and failures, each action with the memories that concern it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from agentctx.agents.hooks.hook_events import question
from agentctx.client.async_client import AsyncClient
from benchmarks.agents import BenchedBridge, bridge, run_hook
from benchmarks.daemons import daemon_folder, started
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.options import Options
from benchmarks.timing import interleaved_ms, percentile

LEAST_GIVEN, MOST_FALSE, MOST_TRIVIAL = 0.80, 0.25, 0.03
LEAST_AFTER, MOST_FALSE_AFTER = 0.90, 0.20
MOST_OVER_MCP, MOST_AS_COMMAND = 5.0, 1.5
_NAMESPACE = "default"
_CLIENT = "claude-code"
Rows: TypeAlias = Sequence[Mapping[str, Any]]


class World(NamedTuple):
    """A user's memories, and what an agent does."""

    memories: Rows
    actions: Rows
    failures: Rows
    tags: Mapping[str, Sequence[str]]


class Given(NamedTuple):
    """Whether what concerns an action was given; for one that nothing concerns, whether anything was."""

    kind: str
    is_given: bool


async def measure(options: Options) -> list[Figure]:
    """Ask about every action and failure of every world, each in a conversation of its own."""
    if options.worlds is None:
        raise RuntimeError("--worlds is missing")
    figures: list[Figure] = []
    costs: list[Figure] = []
    every: list[Given] = []
    for folder in sorted(path.parent for path in options.worlds.glob("*/actions.jsonl")):
        world = _read(folder)
        with daemon_folder() as place:
            async with started(place) as client:
                given = await _asked(client, world, await _saved(client, world.memories))
                costs = costs or await _costs(client, world, options.size(200, 40))
        figures += _shares(folder.name, given)
        every += given
    return [*figures, *_shares("all", every), *costs]


def _read(folder: Path) -> World:
    def rows(name: str) -> Rows:
        path = folder / f"{name}.jsonl"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.strip()]

    tags = {row["id"]: row["tags"] for row in rows("action_tags")}
    return World(rows("memories"), rows("actions"), rows("failures"), tags)


async def _saved(client: AsyncClient, memories: Rows) -> dict[str, str]:
    ids = {}
    for memory in memories:
        fields = {name: memory[name] for name in memory if name not in {"id", "collection", "text"}}
        match memory["collection"]:
            case "learning":
                fields.pop("key", None)
                saved = await client.save_learning(**fields)
            case "observation":
                saved = await client.save_observation("earlier", memory["text"])
            case _:
                saved = await client.save_knowledge(fields.pop("key"), memory["text"], **fields)
        ids[saved.id] = memory["id"]
    await client.drain(timeout_s=60)
    return ids


async def _asked(client: AsyncClient, world: World, ids: Mapping[str, str]) -> list[Given]:
    given = []
    for row in world.actions:
        found = await _found(client, "PreToolUse", _event(row), ids)
        given.append(_judged("action", (world.tags.get(row["id"]) or [""])[0], row, found))
    for row in world.failures:
        failed = {"tool_response": {"exit_code": row["exit_code"], "output": row["output"]}}
        found = await _found(client, "PostToolUse", _event({"tool": "Bash", **row}) | failed, ids)
        given.append(_judged("failure", "", row, found))
    return given


def _judged(what: str, tag: str, row: Mapping[str, Any], found: frozenset[str]) -> Given:
    if row["relevant"]:
        return Given(what, not found.isdisjoint(row["relevant"]))
    return Given(f"{what} without{f', {tag}' if tag else ''}", bool(found))


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {name: row[name] for name in ("command", "file_path") if name in row}
    return {"tool_name": row["tool"], "tool_input": arguments, "cwd": row.get("cwd", "/")}


async def _found(
    client: AsyncClient, event: str, payload: dict[str, Any], ids: Mapping[str, str]
) -> frozenset[str]:
    asked = question(event, _CLIENT, payload, namespaces=[_NAMESPACE])
    found: set[str] = set()
    for body in asked.bodies if asked else ():
        reply = await client.context(**body)
        found |= {ids[hit.id] for hit in reply.results}
    return frozenset(found)


def _shares(name: str, given: Sequence[Given]) -> Iterator[Figure]:
    by_kind: dict[str, list[bool]] = defaultdict(list)
    for each in given:
        by_kind[each.kind].append(each.is_given)
        if each.kind.startswith("action without"):
            by_kind["action without"].append(each.is_given)
        if each.kind.endswith((", trivial", ", other")):
            by_kind["action without, trivial or other"].append(each.is_given)
    bars = {
        "action": at_least(LEAST_GIVEN, "given"),
        "action without": at_most(MOST_FALSE, "false"),
        "action without, trivial or other": at_most(MOST_TRIVIAL, "false"),
        "failure": at_least(LEAST_AFTER, "given"),
        "failure without": at_most(MOST_FALSE_AFTER, "false"),
    }
    for kind, values in sorted(by_kind.items()):
        label = f"{name}: {kind}, {'anything' if 'without' in kind else 'what concerns it'} given"
        yield Figure(name=label, value=sum(values) / len(values), unit="", bar=bars.get(kind))


async def _costs(client: AsyncClient, world: World, rounds: int) -> list[Figure]:
    """Time the hook beside one that asks nothing, as a call of the bridge and as a command."""
    numbers = iter(range(1_000_000))
    rows = [row for row in world.actions if row["tool"] == "Bash"]

    def event() -> dict[str, Any]:
        number = next(numbers)
        row = rows[number % len(rows)]
        command = f"{row['command']} # {number}"  # no question repeats
        return _event({**row, "command": command}) | {"session_id": f"s{number}"}

    async with bridge(client.socket, "--agent", _CLIENT) as mcp:
        empty, full = await interleaved_ms(
            (
                lambda: _call(mcp, "UserPromptSubmit", {"prompt": "/nothing"}),
                lambda: _call(mcp, "PreToolUse", event()),
            ),
            rounds=rounds,
        )
    nothing, command = await interleaved_ms(
        (
            lambda: run_hook(client.socket, "UserPromptSubmit", {"prompt": "/nothing"}),
            lambda: run_hook(client.socket, "PreToolUse", event()),
        ),
        rounds=rounds,
        warm_up=5,
    )
    over_mcp = percentile(full, 95) / percentile(empty, 95)
    as_command = percentile(command, 95) / percentile(nothing, 95)
    return [
        Figure(name="hook before an action over MCP, p95", value=percentile(full, 95), unit="ms"),
        Figure(
            name="the same, times an empty hook",
            value=over_mcp,
            unit="",
            bar=at_most(MOST_OVER_MCP, "empty hooks"),
        ),
        Figure(name="hook before an action as a command, p95", value=percentile(command, 95), unit="ms"),
        Figure(
            name="the same as a command, times an empty hook",
            value=as_command,
            unit="",
            bar=at_most(MOST_AS_COMMAND, "empty hooks"),
        ),
    ]


async def _call(mcp: BenchedBridge, event: str, payload: Mapping[str, Any]) -> None:
    await mcp.call("hook", event=event, **payload)
