"""Entries that leave as an export and come as an import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from agentctx.wire.entries import EntryView
from agentctx.wire.names import STRICT, ImportTrust


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportedEntry:
    """A live entry with what depends on it."""

    entry: EntryView
    versions: list[EntryView]
    """The older ones, oldest first; empty unless the history was asked for."""
    chunks: list[list[int]]
    """Pairs `[start, end]` of each chunk: code points of `content`, end exclusive."""
    fingerprint: dict[str, Any] | None = None
    """What made the vectors: provider, model, dimension and more."""
    vectors: list[str | None] | None = None
    """One for each chunk: float32, little-endian, in Base64; null while it is pending."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportReply:
    """Oldest first. `next` is the cursor of the following page, null on the last."""

    entries: list[ExportedEntry]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportEntry:
    """One version of an entry, as an export shows it. Its origin and trust are not believed."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    id: str
    namespace: str
    collection: str
    key: str | None = None
    session: str | None = None
    agent: str | None = None
    content: str
    attributes: dict[str, Any]
    created: str
    updated: str
    expires: str | None = None
    derived_from: list[str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportRequest:
    """Versions to import; all versions of an entry in order. `dry_run`: only report what would be done.

    What was forgotten here is refused (`forgotten`) unless `include_forgotten`; an entry whose last version
    has expired is refused with all its versions (`expired`). Times may lie in the future.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    entries: list[ImportEntry]
    dry_run: bool = False
    include_forgotten: bool = False
    trust: ImportTrust = "external"
    """What new entries are worth. `agent`: what agents save is worth, also in system prompts. Only an admin
    of the daemon may say so, and the audit trail records it. What is here already keeps its trust."""
