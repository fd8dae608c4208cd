"""A folder of Chroma: the documents of its collections with their metadata. Needs no Chroma."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentctx_importers.foreign_sqlite import opened_database
from agentctx_importers.json_values import time_ms
from agentctx_importers.records import Item, MemorySource, Record, Unreadable

FILE: Final = "chroma.sqlite3"
MAX_LABEL_CHARS: Final = 40
_TEXT: Final = "chroma:document"
_ROWS: Final = (
    "SELECT e.id, c.name, e.embedding_id, e.created_at, m.key, m.string_value, m.int_value, m.float_value, "
    "m.bool_value FROM embeddings e JOIN segments s ON s.id = e.segment_id "
    "JOIN collections c ON c.id = s.collection JOIN embedding_metadata m ON m.id = e.id "
    "WHERE s.scope = 'METADATA' ORDER BY e.id, m.key"
)


class ChromaDocument(NamedTuple):
    """A document of a collection. `created` is in milliseconds, None if unknown."""

    collection: str
    id: str
    text: str
    metadata: dict[str, Any]
    created: int | None


def documents(path: Path) -> Iterator[ChromaDocument]:
    """Yield the documents of a folder of Chroma, or of its file. Raises `Unreadable`."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise Unreadable(f"{path} has no {FILE}.", hint="Give the folder that PersistentClient was given.")
    with opened_database(file) as database:
        tables = ("embeddings", "segments", "collections", "embedding_metadata")
        for _, found in groupby(database.rows(_ROWS, *tables), key=itemgetter(0)):
            yield _document(list(found))


def _document(rows: list[tuple[Any, ...]]) -> ChromaDocument:
    _, collection, native, created, *_ = rows[0]
    metadata = {str(row[4]): _value(*row[5:]) for row in rows}
    text = metadata.pop(_TEXT, "")
    return ChromaDocument(str(collection), str(native), str(text or ""), metadata, time_ms(created))


def _value(text: Any, whole: Any, number: Any, flag: Any) -> Any:
    if flag is not None:
        return bool(flag)
    return next((each for each in (text, whole, number) if each is not None), None)


def labels_of(metadata: dict[str, Any]) -> list[str]:
    """Return metadata as tags: `name:value` for short texts and numbers."""
    known = ((name, str(value)) for name, value in metadata.items() if value is not None)
    return [f"{name}:{value}" for name, value in known if len(value) <= MAX_LABEL_CHARS]


def _read(path: Path) -> Iterator[Item]:
    for each in documents(path):
        key = f"{each.collection}/{each.id}"
        source = each.metadata.get("source")
        yield Record(
            id=key,
            key=key,
            content=each.text,
            tags=("chroma", *labels_of(each.metadata)),
            source=source if isinstance(source, str) else None,
            created=each.created,
            is_dated=False,  # adding it again sets it
            updated=each.created,
        )


SOURCE: Final = MemorySource("Chroma: the documents in a folder of its PersistentClient", lambda: (), _read)
