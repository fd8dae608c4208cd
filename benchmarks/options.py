"""The options of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`large` adds sizes that take an hour. `scifact`, `locomo` and `worlds` are folders with retrieval sets,
    `fixtures` has those of PrecisionMemBench, and `aliases_as_cues` saves the aliases of its beliefs as cues,
    not in the text. Without folders relevance is not measured.
    """

    quick: bool = False
    large: bool = False
    scifact: Path | None = None
    locomo: Path | None = None
    worlds: Path | None = None
    fixtures: Path | None = None
    aliases_as_cues: bool = False

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full
