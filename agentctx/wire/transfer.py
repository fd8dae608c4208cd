"""Exported and imported entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentctx.wire.entries import EntryView, FileState
from agentctx.wire.protocol import ImportTrust, Quarantine, request_body


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportedEntry:
    """A live entry with its older versions, chunks and vectors."""

    entry: EntryView
    versions: list[EntryView]
    """The older versions, oldest first; empty unless the history was requested."""
    chunks: list[list[int]]
    """Pairs `[start, end]` of each chunk: code points of `content`, end exclusive."""
    fingerprint: dict[str, Any] | None = None
    """How the vectors were made: provider, model, dimension and more."""
    vectors: list[str | None] | None = None
    """One vector per chunk: float32, little-endian, in Base64; null while pending."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportReply:
    """A page of entries, oldest first. `next` is the cursor of the following page, null on the last."""

    entries: list[ExportedEntry]
    next: str | None


@request_body
class ImportEntry:
    """One version of an entry, as exported. Its origin and trust are ignored."""

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
    quarantined: Quarantine | None = None
    """Why it was in quarantine there: it is imported into quarantine."""
    file_state: FileState | None = None
    """If its file no longer says it, a new entry is withdrawn here, too."""


@request_body
class ImportRequest:
    """Versions to import; all versions of an entry in order. `dry_run`: only report what would be done.

    Entries that were forgotten here are refused (`forgotten`) unless `include_forgotten`; an entry whose last
    version has expired is refused with all its versions (`expired`). Times may lie in the future.
    """

    entries: list[ImportEntry]
    dry_run: bool = False
    include_forgotten: bool = False
    trust: ImportTrust = "external"
    """Trust of new entries. `agent`: like entries that agents save, also allowed in system prompts. Requires
    an admin of the daemon, and is audited. Existing entries keep their trust."""
    review: bool = False
    """New entries wait for a review, and existing ones stay as they are."""
