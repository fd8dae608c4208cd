"""MemPalace: the drawers of a palace, in either of its stores, and the facts of its knowledge graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from agentctx_importers.chroma_store import FILE, documents
from agentctx_importers.foreign_sqlite import opened_database
from agentctx_importers.json_values import json_object, text_in, time_ms
from agentctx_importers.records import Item, MemorySource, Record, Unreadable

_EXACT: Final = "sqlite_exact.sqlite3"
_GRAPH: Final = "knowledge_graph.sqlite3"
_DOCUMENTS: Final = (
    "SELECT d.id, d.document, d.metadata_json, d.created_at FROM documents d "
    "JOIN collections c ON c.id = d.collection_id WHERE c.name = 'mempalace_drawers' ORDER BY d.id"
)
_TRIPLES: Final = (
    "SELECT t.id, s.name, t.subject, t.predicate, o.name, t.object, t.extracted_at FROM triples t "
    "LEFT JOIN entities s ON s.id = t.subject LEFT JOIN entities o ON o.id = t.object "
    "WHERE t.valid_to IS NULL ORDER BY t.id"
)


def _usual() -> Sequence[Path]:
    return [Path.home() / ".mempalace" / "palace"]


def _read(path: Path) -> Iterator[Item]:
    """Yield the drawers of a palace's folder, and the facts that are valid still."""
    graphs = [each for each in (path / _GRAPH, path.parent / _GRAPH) if each.is_file()]
    if not any((path / name).is_file() for name in (_EXACT, FILE, _GRAPH)):
        raise Unreadable(f"{path} is not a palace.", hint="Give the folder ~/.mempalace/palace.")
    if (path / _EXACT).is_file():
        with opened_database(path / _EXACT) as database:
            for name, text, metadata, created in database.rows(_DOCUMENTS, "documents", "collections"):
                yield _drawer(str(name), str(text), json_object(str(metadata)) or {}, time_ms(created))
    elif (path / FILE).is_file():
        for each in documents(path):
            if each.collection == "mempalace_drawers":
                yield _drawer(each.id, each.text, each.metadata, each.created)
    for graph in graphs[:1]:
        yield from _facts(graph)


def _files(palace: Path) -> Iterator[Path]:
    return (palace / name for name in (_EXACT, FILE, _GRAPH) if (palace / name).is_file())


def _drawer(name: str, text: str, metadata: dict[str, Any], created: int | None) -> Record:
    filed = time_ms(metadata.get("content_date")) or time_ms(metadata.get("filed_at")) or created
    places = [place for each in ("wing", "room") if (place := text_in(metadata, each))]
    return Record(
        id=name,
        key=f"mempalace/{name}",
        content=text,
        tags=("mempalace", *places),
        source=text_in(metadata, "source_file"),
        agent=text_in(metadata, "added_by"),
        created=filed,
        is_dated=False,  # filing it again sets it
        updated=filed,
    )


def _facts(graph: Path) -> Iterator[Item]:
    with opened_database(graph) as database:
        for row in database.rows(_TRIPLES, "triples", "entities"):
            name, subject, subject_id, predicate, target, target_id, created = row
            time = time_ms(created)
            yield Record(
                id=f"fact/{name}",
                key=f"mempalace/fact/{name}",
                content=f"{subject or subject_id} {str(predicate).replace('_', ' ')} {target or target_id}",
                tags=("mempalace",),
                created=time,
                updated=time,
            )


SOURCE: Final = MemorySource("MemPalace: drawers and facts of a palace", _usual, _read, _files)
