"""Whether a memory concerns an action."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentctx.service.rag.action import ActionNames
from agentctx.service.rag.action_gate import MIN_CONCERN
from agentctx.service.rag.concern import (
    MemoryTerms,
    concern,
    follows,
    rarity_among,
    terms_of_learning,
    terms_of_text,
)
from agentctx.wire import ActionKind

FROZEN = terms_of_text("Everything under shop/vendor/ is copied from the agency. No edits of ours there.")
STATE = terms_of_text("Nothing is removed from the bucket acme-state. Objects are moved with rclone move.")
BRANCHES = terms_of_text("Branches are called team-<number>/<slug>, the pipeline reads the number.")
VOLUMES = terms_of_learning("compose down with -v / --volumes", "Leave out -v; plain compose down suffices.")
NODES = terms_of_learning(
    "node-test on the box-NN machines", "Pass --isolated, and never --shared.", "they share a port"
)
OTHERS = [
    terms_of_text(text)
    for text in (
        "The stand-up is at nine.",
        "Anna reads the compose file first.",
        "The shop opens on Mondays.",
        "A machine in the cellar runs node.",
        "Team meetings are short.",
    )
]
EVERY = [FROZEN, STATE, BRANCHES, VOLUMES, NODES, *OTHERS]


def concerns(memory: MemoryTerms, text: str, kind: ActionKind = "run", folder: str = "/home/a/p") -> bool:
    action = ActionNames.of(kind, text, folder)
    return concern(memory, action, rarity_among(EVERY)) >= MIN_CONCERN["normal"]


@pytest.mark.parametrize(
    ("memory", "text", "kind", "folder"),
    [
        (FROZEN, "/home/a/p/shop/vendor/grid.css", "write", "/home/a/p"),
        (FROZEN, "sed -i s/a/b/ grid.css", "run", "/home/a/p/shop/vendor"),
        (FROZEN, "prettier --write shop", "run", "/home/a/p"),
        (STATE, "aws s3 rm s3://acme-state/a", "run", "/home/a/p"),
        (VOLUMES, "docker compose down -v", "run", "/home/a/p"),
        (VOLUMES, "sudo docker-compose down --volumes", "run", "/home/a/p"),
        (NODES, "ssh box-07 node-test --quick", "run", "/home/a/p"),
    ],
)
def test_what_concerns_an_action(memory: MemoryTerms, text: str, kind: ActionKind, folder: str) -> None:
    assert concerns(memory, text, kind, folder)


@pytest.mark.parametrize(
    ("memory", "text", "kind"),
    [
        (FROZEN, "/home/a/p/shop/vendor/grid.css", "read"),
        (FROZEN, "/home/a/p/shop/cart.css", "write"),
        (STATE, "aws s3 ls s3://other-state/", "run"),
        (VOLUMES, "docker compose down", "run"),
        (VOLUMES, "docker compose logs -f web", "run"),
        (NODES, "node build.js", "run"),
    ],
)
def test_what_does_not(memory: MemoryTerms, text: str, kind: ActionKind) -> None:
    assert not concerns(memory, text, kind)


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        (NODES, "ssh box-07 node-test --isolated"),
        (STATE, "rclone move acme-state:a acme-archive:a"),
        (BRANCHES, "git switch -c team-12/search"),
        (terms_of_text("A deploy without --region goes to the wrong place."), "acme deploy --region eu"),
    ],
)
def test_an_action_that_follows_a_memory_needs_none(memory: MemoryTerms, text: str) -> None:
    assert follows(memory, ActionNames.of("run", text))
    assert not concerns(memory, text)


def test_what_a_fix_forbids_or_the_trigger_names_is_not_followed() -> None:
    assert not follows(NODES, ActionNames.of("run", "ssh box-07 node-test --shared"))
    assert not follows(VOLUMES, ActionNames.of("run", "docker compose down -v"))


@pytest.mark.parametrize("world", ["shop", "firmware"])
def test_most_of_what_concerns_the_actions_of_a_world_is_given(world: str) -> None:
    """Two worlds that were written for the weights, with near misses for half of the actions."""
    memories = {row["id"]: _terms(row) for row in rows(world, "memories")}
    rarity = rarity_among(memories.values())
    given: list[bool] = []
    false: list[bool] = []
    for row in rows(world, "actions"):
        kind = {"Bash": "run", "Read": "read"}.get(row["tool"], "write")
        names = ActionNames.of(kind, row.get("command") or row["file_path"], row["cwd"])  # type: ignore[arg-type]
        least = MIN_CONCERN["normal"]
        passed = {name for name, each in memories.items() if concern(each, names, rarity) >= least}
        (given if row["relevant"] else false).append(bool(passed & set(row["relevant"] or passed)))
    assert sum(given) / len(given) >= 0.8
    assert sum(false) / len(false) <= 0.25


def _terms(row: dict[str, Any]) -> MemoryTerms:
    if "text" in row:
        return terms_of_text(row["text"])
    return terms_of_learning(row["trigger"], row["fix"], f"{row['diagnosis']} {row['error_pattern']}")


def rows(world: str, name: str) -> list[dict[str, Any]]:
    path = Path(__file__).with_name("actions") / world / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_nothing_is_concerned_without_terms() -> None:
    assert not concerns(terms_of_text(""), "make")
    assert not concerns(terms_of_learning("", ""), "make")
