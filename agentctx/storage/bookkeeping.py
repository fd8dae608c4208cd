"""Damaged rows of tables other than entries and chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DamagedRows:
    """The number of damaged rows of a table, and what is lost with them."""

    table: str
    rows: int
    loss: str


@dataclass(frozen=True, slots=True)
class RepairedRows:
    """Damaged rows that were repaired or removed at startup. `at` is in milliseconds since the epoch."""

    at: int
    table: str
    rows: int


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """The state of all tables other than entries and chunks."""

    damaged: Sequence[DamagedRows]
    repaired: Sequence[RepairedRows]
    """Newest first; limited to what the audit trail still holds."""
    set_aside: Sequence[str]
    """Names of damaged values of the installation that are kept for examination."""
