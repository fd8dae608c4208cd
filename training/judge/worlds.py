"""Read worlds, and choose the passages that each prompt is trained on.

A world is a folder with `memories.jsonl` and `prompts.jsonl`; worlds/README.md has the format.
"""

from __future__ import annotations

import json
import random
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentctx.service.stores.collection_rules import learning_content

MOST_RIGHT = 3
HARDEST = 2
"""Passages of the same world that are always among the wrong ones: the nearest."""
WRONG, WRONG_OF = 4, 10
"""How many wrong passages of the world are taken, and from how many of the nearest."""
FOREIGN_WORLDS, FOREIGN = 2, 2
"""Other worlds, and their passages nearest to the prompt: most prompts concern nothing in a memory."""
PASTED = 0.1
"""Share of the prompts that get code before or behind them."""
LINES = (4, 8, 16)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, its kind, and the texts of the memories that help with it."""

    text: str
    kind: str
    right: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class World:
    """Memories of one user, and prompts."""

    name: str
    memories: tuple[str, ...]
    prompts: tuple[Prompt, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A prompt with right passages, maybe none, and wrong ones."""

    prompt: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


def read_worlds(folder: Path) -> list[World]:
    """Return every world in the folder, by name."""
    return [_world(path.parent) for path in sorted(folder.glob("*/memories.jsonl"))]


def _world(folder: Path) -> World:
    memories = {row["id"]: text_of(row) for row in _rows(folder / "memories.jsonl")}
    prompts = (
        Prompt(row["text"], row["kind"], tuple(memories[each] for each in row["relevant"]))
        for row in _rows(folder / "prompts.jsonl")
    )
    return World(folder.name, tuple(memories.values()), tuple(prompts))


def text_of(memory: dict[str, Any]) -> str:
    """Return a memory's text as the daemon stores it."""
    text: str = memory["text"] if "text" in memory else learning_content(memory)
    return text


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    return map(json.loads, filter(str.strip, path.read_text(encoding="utf-8").splitlines()))


class Nearness:
    """The cosine similarity of every prompt to every memory of all worlds."""

    def __init__(
        self, worlds: Sequence[World], vectors: Callable[[Sequence[str]], NDArray[np.float32]]
    ) -> None:
        prompts = list({prompt.text for world in worlds for prompt in world.prompts})
        self._prompts = dict(zip(prompts, vectors(prompts), strict=True))
        self._memories = {world.name: vectors(world.memories) for world in worlds}

    def nearest(self, prompt: str, world: World) -> list[str]:
        """Return a world's memories, nearest to the prompt first."""
        similarity = self._memories[world.name] @ self._prompts[prompt]
        return [world.memories[at] for at in np.argsort(-similarity)]


def groups(worlds: Sequence[World], nearness: Nearness, chance: random.Random) -> list[Group]:
    """Return one group for each prompt; other passages and other code with each call."""
    code = code_snippets(chance)
    made = []
    for world in worlds:
        others = [each for each in worlds if each is not world]
        for prompt in world.prompts:
            wrong = [each for each in nearness.nearest(prompt.text, world) if each not in prompt.right]
            hard, rest = wrong[:HARDEST], wrong[HARDEST:WRONG_OF]
            foreign = [
                passage
                for other in chance.sample(others, FOREIGN_WORLDS)
                for passage in nearness.nearest(prompt.text, other)[:FOREIGN]
            ]
            text = (
                _with_code(prompt.text, chance.choice(code), chance)
                if chance.random() < PASTED
                else prompt.text
            )
            taken = (*hard, *chance.sample(rest, min(len(rest), WRONG - HARDEST)), *foreign)
            made.append(Group(text, prompt.right[:MOST_RIGHT], taken))
    return made


def _with_code(text: str, code: str, chance: random.Random) -> str:
    return f"{code}\n\n{text}" if chance.random() < 0.6 else f"{text}\n\n{code}"


def code_snippets(chance: random.Random) -> list[str]:
    """Return some lines of each of 120 modules of Python's standard library."""
    snippets = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:120]:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        start = chance.randrange(max(1, len(lines) - max(LINES)))
        snippets.append("\n".join(lines[start : start + chance.choice(LINES)]))
    return snippets
