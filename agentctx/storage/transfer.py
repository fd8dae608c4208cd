"""The records of exports and imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentctx.storage.records import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSelection:
    """The entries to export. Empty tuples select all; `since` (milliseconds) selects later changes."""

    namespaces: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()
    since: int | None = None
    with_history: bool = False
    with_vectors: bool = False


@dataclass(frozen=True, slots=True)
class ExportedVectors:
    """Vectors of one space, float32 little-endian, one per chunk; None while pending."""

    fingerprint: Mapping[str, str | int]
    vectors: tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRow:
    """A live entry, its older versions (oldest first) and the positions of its chunks."""

    entry: Entry
    versions: tuple[Entry, ...]
    chunks: tuple[tuple[int, int], ...]
    vectors: ExportedVectors | None


@dataclass(frozen=True, slots=True)
class ExportPage:
    """A page of an export, oldest first. `next` is the cursor of the following page, None on the last."""

    entries: tuple[ExportRow, ...]
    next: int | None
