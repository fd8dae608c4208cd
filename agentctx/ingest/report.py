"""The report of what a run did, or of what a dry run would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from agentctx.ingest.names import escape_path
from agentctx.ingest.plan import FileVerdict
from agentctx.ingest.unread import UnreadFile


@dataclass(frozen=True, slots=True)
class SkippedPath:
    """A file or folder that was skipped. `hint` says how to include it."""

    path: str
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that could not be ingested because of an error."""

    path: str
    problem: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """A note about an ingested file: what was left out of it, or redacted as a secret."""

    path: str
    remark: str


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of embedding, estimated before it starts. `usd` is None if the price is unknown."""

    tokens: int
    usd: float | None
    model: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """The forecast of a dry run. Chunks are counted; everything else is estimated.

    `seconds` is the embedding time, None if it was not measured; `measured_on` is the number of chunks timed.
    """

    chunks: int
    tokens: int
    seconds: float | None
    disk_bytes: int
    measured_on: int


@dataclass(slots=True)
class Report:
    """The outcome of a run. Counts are of files, except `entries` and `bytes`, which count what was saved."""

    roots: list[str] = field(default_factory=list)
    dry_run: bool = False
    interrupted: bool = False
    saved: dict[FileVerdict, list[str]] = field(
        default_factory=lambda: {verdict: [] for verdict in FileVerdict}
    )
    unchanged: int = 0
    returned: list[str] = field(default_factory=list)
    """Files that say again what their entries say, among those saved or unchanged."""
    withdrawn: list[UnreadFile] = field(default_factory=list)
    """Files that are gone or say something else: no answer includes their entries."""
    stale: list[UnreadFile] = field(default_factory=list)
    """Files that could not be seen, or are kept: their entries stay in the answers, marked."""
    removed: list[UnreadFile] = field(default_factory=list)
    """Files whose entries were erased, on request."""
    skipped: list[SkippedPath] = field(default_factory=list)
    failed: list[FailedFile] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    entries: int = 0
    bytes: int = 0
    cost: Cost | None = None
    """None if embedding is free or there was nothing to send."""
    estimate: Estimate | None = None
    """Set by a dry run that found something to save."""
    pending: int | None = None
    """Embeddings still pending at the end; None if the run did not wait for them."""
    buried: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether the run completed without failures, buried jobs or an interruption."""
        return not (self.failed or self.buried or self.interrupted)

    @property
    def changes(self) -> int:
        """The number of files whose entries changed in any way."""
        marked = sum(each.is_new for each in (*self.withdrawn, *self.stale))
        return sum(map(len, self.saved.values())) + len(self.removed) + len(self.returned) + marked

    def skip(self, path: str, reason: str, hint: str = "") -> None:
        self.skipped.append(SkippedPath(escape_path(path), reason, hint))

    def fail(self, path: str, problem: str, hint: str = "") -> None:
        self.failed.append(FailedFile(escape_path(path), problem, hint))

    def remark(self, source: str, remark: str) -> None:
        self.remarks.append(Remark(source, remark))

    def counts(self) -> dict[str, int]:
        """Return the number of files for each outcome."""
        return {
            **{verdict.value: len(sources) for verdict, sources in self.saved.items()},
            "unchanged": self.unchanged,
            "returned": len(self.returned),
            "withdrawn": len(self.withdrawn),
            "stale": len(self.stale),
            "removed": len(self.removed),
            "skipped": len(self.skipped),
            "failed": len(self.failed),
        }

    def document(self) -> dict[str, Any]:
        """Return the whole report as a JSON document."""
        return {
            "roots": self.roots,
            "dry_run": self.dry_run,
            "interrupted": self.interrupted,
            "counts": self.counts(),
            "entries": self.entries,
            "bytes": self.bytes,
            **{verdict.value: sources for verdict, sources in self.saved.items()},
            "returned": self.returned,
            "withdrawn": list(_shown(self.withdrawn)),
            "stale": list(_shown(self.stale)),
            "removed": list(_shown(self.removed)),
            "skipped": [asdict(each) for each in self.skipped],
            "failed": [asdict(each) for each in self.failed],
            "remarks": [asdict(each) for each in self.remarks],
            "cost": None if self.cost is None else asdict(self.cost),
            "estimate": None if self.estimate is None else asdict(self.estimate),
            "embedding": None if self.pending is None else {"pending": self.pending, "buried": self.buried},
        }


def _shown(files: list[UnreadFile]) -> Iterator[dict[str, str]]:
    return ({"path": each.source, "reason": each.reason} for each in files)
