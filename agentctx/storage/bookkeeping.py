"""What was found damaged of the rows that are not the memory itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DamagedRows:
    """Rows of a table that cannot be read, and what is lost with them."""

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
    """How the rows are that are not the memory itself."""

    damaged: Sequence[DamagedRows]
    repaired: Sequence[RepairedRows]
    """Newest first; as far as the audit trail still has them."""
    set_aside: Sequence[str]
    """Names of damaged values of the installation that are kept for an examination."""
