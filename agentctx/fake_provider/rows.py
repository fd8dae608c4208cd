"""The rows of a reply, one for each text, and the faults that spoil them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agentctx.embedding_providers.base import Vectors
from agentctx.fake_provider.faults import Kind


@dataclass(frozen=True, slots=True)
class Row:
    """The index of a text or document, and its vector; a score is a vector of length 1."""

    index: int
    values: Vectors

    @property
    def score(self) -> float:
        return float(self.values[0])


def corrupt(kind: Kind, rows: list[Row]) -> list[Row]:
    """Apply a fault of this kind to the rows; kinds that do not concern rows change nothing."""
    match kind:
        case "too_few":
            return rows[:-1]
        case "too_many":
            return [*rows, replace(rows[-1], index=len(rows))]
        case "wrong_order":
            return rows[::-1]
        case "empty":
            return []
        case "wrong_dimension" | "nan" | "zeros":
            return [replace(row, values=_corrupted(kind, row.values)) for row in rows]
        case _:
            return rows


def _corrupted(kind: Kind, values: Vectors) -> Vectors:
    if kind == "wrong_dimension":
        return values[:-1] if len(values) > 1 else values
    return np.full_like(values, np.nan if kind == "nan" else 0)
