"""What a run did, or would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from agentctx.ingest.names import spell
from agentctx.ingest.plan import FileVerdict, Missing


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that was not taken. `hint` says how it could be."""

    path: str
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that should have been taken and could not be."""

    path: str
    problem: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a file that was taken: what was left out of it, or cut out as a secret."""

    path: str
    remark: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What embedding was going to cost, estimated before it began. `usd` is None where no price is known."""

    tokens: int
    usd: float | None
    model: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a dry run foresees. Chunks are counted, the rest is estimated.

    `seconds` of embedding is None where it was not measured; `measured_on` is the number of chunks it was.
    """

    chunks: int
    tokens: int
    seconds: float | None
    disk_bytes: int
    measured_on: int


@dataclass(slots=True)
class Report:
    """Counts are of files, but for `entries` and `bytes`: those saved."""

    roots: list[str] = field(default_factory=list)
    dry_run: bool = False
    interrupted: bool = False
    saved: dict[FileVerdict, list[str]] = field(
        default_factory=lambda: {verdict: [] for verdict in FileVerdict}
    )
    unchanged: int = 0
    missing: list[Missing] = field(default_factory=list)
    """Known files whose entries are still there and should go."""
    removed: list[Missing] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    failed: list[FailedFile] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    entries: int = 0
    bytes: int = 0
    cost: Cost | None = None
    """None where embedding costs nothing, or where there was nothing to send."""
    estimate: Estimate | None = None
    """Of a dry run that found something to save."""
    pending: int | None = None
    """Embeddings still pending at the end; None without waiting."""
    buried: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether everything that was asked for was done."""
        return not (self.failed or self.buried or self.interrupted)

    @property
    def changes(self) -> int:
        """Files saved, touched or removed."""
        return sum(map(len, self.saved.values())) + len(self.removed)

    def skip(self, path: str, reason: str, hint: str = "") -> None:
        self.skipped.append(Skipped(spell(path), reason, hint))

    def fail(self, path: str, problem: str, hint: str = "") -> None:
        self.failed.append(FailedFile(spell(path), problem, hint))

    def remark(self, source: str, remark: str) -> None:
        self.remarks.append(Remark(source, remark))

    def counts(self) -> dict[str, int]:
        """How many files came out how."""
        return {
            **{verdict.value: len(sources) for verdict, sources in self.saved.items()},
            "unchanged": self.unchanged,
            "removed": len(self.removed),
            "missing": len(self.missing),
            "skipped": len(self.skipped),
            "failed": len(self.failed),
        }

    def document(self) -> dict[str, Any]:
        """The whole of it for JSON."""
        return {
            "roots": self.roots,
            "dry_run": self.dry_run,
            "interrupted": self.interrupted,
            "counts": self.counts(),
            "entries": self.entries,
            "bytes": self.bytes,
            **{verdict.value: sources for verdict, sources in self.saved.items()},
            "removed": list(_shown(self.removed)),
            "missing": list(_shown(self.missing)),
            "skipped": [asdict(each) for each in self.skipped],
            "failed": [asdict(each) for each in self.failed],
            "remarks": [asdict(each) for each in self.remarks],
            "cost": None if self.cost is None else asdict(self.cost),
            "estimate": None if self.estimate is None else asdict(self.estimate),
            "embedding": None if self.pending is None else {"pending": self.pending, "buried": self.buried},
        }


def _shown(files: list[Missing]) -> Iterator[dict[str, str]]:
    return ({"path": each.source, "reason": each.reason} for each in files)
