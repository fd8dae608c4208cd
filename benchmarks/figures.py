"""Figures, their bars, and their representation as a table and as JSON. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_HEADINGS = ("figure", "value", "unit", "baseline", "ratio", "bar", "verdict")


class Verdict(StrEnum):
    """The verdict on a figure."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "FAIL"
    PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class Bar:
    """The limit for a value. `limit` has the unit of the value; `text` names its source."""

    limit: float
    text: str
    is_least: bool = False

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.is_least else value <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value. Without a bar it is printed but not judged."""

    name: str
    value: float
    unit: str
    baseline: float | None = None
    bar: Bar | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.baseline if self.baseline else None

    @property
    def verdict(self) -> Verdict:
        if self.bar is None:
            return Verdict.PRINTED
        return Verdict.PASS if self.bar.holds(self.value) else Verdict.FAIL


def at_most(limit: float, text: str) -> Bar:
    return Bar(limit, text)


def at_least(limit: float, text: str) -> Bar:
    return Bar(limit, text, is_least=True)


def has_failed(figures: Iterable[Figure]) -> bool:
    return any(figure.verdict is Verdict.FAIL for figure in figures)


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as aligned lines under a heading."""
    rows = [_HEADINGS, *map(_row, figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return "\n".join(_line(row, widths) for row in rows)


def as_json(figure: Figure) -> dict[str, Any]:
    bar = figure.bar
    return {
        "name": figure.name,
        "value": figure.value,
        "unit": figure.unit,
        "baseline": figure.baseline,
        "ratio": figure.ratio,
        "bar": None if bar is None else {"limit": bar.limit, "text": bar.text, "is_least": bar.is_least},
        "verdict": figure.verdict.value.lower(),
    }


def _row(figure: Figure) -> tuple[str, ...]:
    return (
        figure.name,
        _number(figure.value),
        figure.unit,
        "" if figure.baseline is None else _number(figure.baseline),
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.bar is None else f"{figure.bar.text} ({_number(figure.bar.limit)})",
        figure.verdict.value,
    )


def _number(value: float) -> str:
    if value == int(value):
        return str(int(value))
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    numbers = {1, 3, 4}
    cells = [
        cell.rjust(width) if column in numbers else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
