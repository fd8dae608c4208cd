"""The records of a complete copy of a memory, independent of the engine: versions and other rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, Self, TypeAlias

from agentctx.storage.injections import RECEIPT_COLUMNS
from agentctx.storage.records import Draft
from agentctx.text.chunking.base import Span

Value: TypeAlias = str | int | float | bytes | None
_NOT_COPIED_AS_IS: Final = frozenset(
    {"content", "spans", "chunking", "attributes", "derived_from", "flags", "is_held", "in_place", "remember"}
)
DRAFT_COLUMNS: Final = tuple(each.name for each in fields(Draft) if each.name not in _NOT_COPIED_AS_IS)
"""The columns of `entries` that have the value and the name of a draft's field."""
PAGE_CHARS: Final = 400_000
"""A page of versions ends once its texts have this many characters."""


class VersionKey(NamedTuple):
    """Identifies a version of an entry."""

    entry: str
    version: int


class CopiedJob(NamedTuple):
    """A job without its lease."""

    state: str
    attempts: int
    not_before: int
    last_error: str | None
    created: int


class CopiedChunk(NamedTuple):
    """A chunk with its vectors (float32 little-endian) and its jobs, both by space id."""

    cue: int
    start: int
    end: int
    hash: bytes
    chunking: int
    vectors: Mapping[int, bytes]
    jobs: Mapping[int, CopiedJob]


NOTHING_COPIED: Final = CopiedChunk(0, 0, 0, b"", 0, {}, {})
"""Stands for a chunk missing in the source, for which a job is created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedVersion:
    """A stored version of an entry. Only a live version has chunks."""

    key: VersionKey
    live: bool
    draft: Draft
    created: int
    updated: int
    chunks: tuple[CopiedChunk, ...]


@dataclass(frozen=True, slots=True)
class CopyPage:
    """Versions in the order they were saved, and the ids of damaged entries.

    `next` is the cursor of the following page, None on the last.
    """

    versions: tuple[CopiedVersion, ...]
    damaged: tuple[str, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table common to both engines; its rows are matched by `key`, the first `keys` columns."""

    name: str
    columns: tuple[str, ...]
    keys: int = 1
    flags: tuple[str, ...] = ()
    """Boolean columns: 1 or 0 in a row."""
    rows: str = field(default="")
    """SQL of a subquery to read instead of the table."""

    @property
    def key(self) -> tuple[str, ...]:
        return self.columns[: self.keys]

    @property
    def source(self) -> str:
        return self.rows or self.name

    @property
    def on_conflict(self) -> str:
        """The end of an INSERT that replaces an existing row with the same key."""
        changes = ", ".join(f"{column} = excluded.{column}" for column in self.columns[self.keys :])
        action = f"UPDATE SET {changes}" if changes else "NOTHING"
        return f"ON CONFLICT ({', '.join(self.key)}) DO {action}"


_FORGOTTEN: Final = """(SELECT entry, max(at) AS at FROM (
    SELECT entry, at FROM forgotten
    UNION ALL SELECT subject, at FROM audit WHERE kind = 'forget' AND subject IS NOT NULL) AS gone
    GROUP BY entry) AS forgotten"""
VERSIONS: Final = CopiedTable("entries", ("id", "version"), keys=2)
"""The keys of all versions, to find the ones that only the target has."""
RECEIPTS: Final = "injections"
TABLES: Final = (
    CopiedTable("revocations", ("id", "at", "principal", "criteria", "entries")),
    CopiedTable(
        "quarantine",
        ("entry", "screened", "revocation", "state", "since", "outdated", "waiting"),
        flags=("screened", "outdated"),
    ),
    CopiedTable("capture_modes", ("namespace", "agent", "mode", "since"), keys=2),
    CopiedTable("file_states", ("entry", "state", "reason", "since")),
    CopiedTable("revoked", ("entry", "revocation"), keys=2),
    CopiedTable("derivations", ("entry", "source"), keys=2),
    CopiedTable("supersessions", ("older", "newer", "closed"), keys=2),
    CopiedTable("flags", ("entry", "flag"), keys=2),
    CopiedTable("forgotten", ("entry", "at"), rows=_FORGOTTEN),
    CopiedTable(
        "idempotency", ("principal", "key", "digest", "entry", "version", "change", "created"), keys=2
    ),
    CopiedTable(RECEIPTS, RECEIPT_COLUMNS, flags=("restarted",)),
)
"""In the order of writing; rows are removed in reverse order."""

MARK: Final = "copy"
"""Name of the target's mark among the values of the installation."""
_COMPLETE: Final = b"complete "
_COPYING: Final = b"copying "


class CopyMark(NamedTuple):
    """States in the target which memory it is a copy of, and whether all of it was copied.

    A daemon refuses an incomplete copy, and removes the mark of a complete one before it uses it.
    """

    source: bytes
    """The identity of the source."""
    is_complete: bool

    def encoded(self) -> bytes:
        return (_COMPLETE if self.is_complete else _COPYING) + self.source

    @classmethod
    def decode(cls, value: bytes) -> Self:
        is_complete = value.startswith(_COMPLETE)
        return cls(value.removeprefix(_COMPLETE if is_complete else _COPYING), is_complete)


def identity_of(secret: bytes | None) -> bytes:
    """Return what identifies an installation without revealing its secret."""
    return hashlib.sha256(secret or b"").digest()


def version_of(row: Mapping[str, Any], content: str, chunks: tuple[CopiedChunk, ...]) -> CopiedVersion:
    """Return the version in a row with its key, its times, `attributes` and the `DRAFT_COLUMNS`."""
    draft = Draft(
        content=content,
        attributes=json.loads(row["attributes"]),
        spans=tuple(Span(chunk.start, chunk.end) for chunk in chunks if not chunk.cue),
        chunking=chunks[0].chunking if chunks else 0,
        **{name: row[name] for name in DRAFT_COLUMNS},
    )
    return CopiedVersion(
        key=VersionKey(row["id"], row["version"]),
        live=bool(row["live"]),
        draft=draft,
        created=row["created"],
        updated=row["updated"],
        chunks=chunks,
    )


def jobs_of(chunk: CopiedChunk, enabled: Iterable[int], now: int) -> dict[int, CopiedJob]:
    """Return the jobs to write: the copied ones, and new ones in enabled spaces without a vector."""
    jobs = dict.fromkeys(enabled, CopiedJob("pending", 0, 0, None, now)) | dict(chunk.jobs)
    return {space: job for space, job in jobs.items() if space not in chunk.vectors}
