"""The options of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`large` adds sizes that take an hour. `scifact`, `locomo` and `worlds` are folders with retrieval sets;
    without them relevance is not measured.
    """

    quick: bool = False
    large: bool = False
    scifact: Path | None = None
    locomo: Path | None = None
    worlds: Path | None = None

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full
