"""A retrieval set on disk: `corpus.jsonl` {id, text}, `queries.jsonl` {id, text, relevant: [corpus ids]}."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Query:
    """A question and the documents that answer it, at least one."""

    text: str
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """`documents` maps ids to texts. `are_turns`: they are the turns of one conversation."""

    documents: Mapping[str, str]
    queries: tuple[Query, ...]
    are_turns: bool = False


def read_set(folder: Path, *, are_turns: bool = False) -> RetrievalSet:
    """Read one folder, skipping questions without an answer."""
    documents = {row["id"]: row["text"] for row in _rows(folder / "corpus.jsonl")}
    queries = [Query(row["text"], frozenset(row["relevant"])) for row in _rows(folder / "queries.jsonl")]
    return RetrievalSet(documents, tuple(query for query in queries if query.relevant), are_turns)


def read_sets(folder: Path) -> list[RetrievalSet]:
    """Return every folder inside that is a conversation, by name."""
    return [read_set(path.parent, are_turns=True) for path in sorted(folder.glob("*/corpus.jsonl"))]


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]
