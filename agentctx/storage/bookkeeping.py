"""Findings about damaged rows of tables other than entries and chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DamagedRows:
    """Damaged rows of a table, and the resulting loss."""

    table: str
    rows: int
    loss: str


@dataclass(frozen=True, slots=True)
class RepairedRows:
    """Damaged rows that a start repaired or removed. `at` is in milliseconds since the epoch."""

    at: int
    table: str
    rows: int


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """The state of all tables other than entries and chunks."""

    damaged: Sequence[DamagedRows]
    repaired: Sequence[RepairedRows]
    """Newest first, as long as the audit trail keeps them."""
    set_aside: Sequence[str]
    """Names of damaged values of the installation that are kept for examination."""
