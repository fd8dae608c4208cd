"""Counts and distributions in plain memory. They belong to one event loop and take no locks: counting a save
must not cost a noticeable part of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from agentctx.telemetry.metrics import Metric

Labels: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many values fell into each bucket, one more for what is above the last bound; and their sum."""

    counts: tuple[int, ...]
    total: float


Samples: TypeAlias = Mapping[Metric, Mapping[Labels, float | Distribution]]
"""What is shown of each metric, by the values of its labels."""


class Count:
    """A counter. Without labels it starts at 0, so that it is there before the first event."""

    __slots__ = ("metric", "values")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.values: dict[Labels, float] = {} if metric.labels else {(): 0.0}

    def add(self, labels: Labels = ()) -> None:
        self.values[labels] = self.values.get(labels, 0.0) + 1.0

    def total(self) -> int:
        return int(sum(self.values.values()))

    def samples(self) -> Mapping[Labels, float]:
        return dict(self.values)


class Spread:
    """A histogram."""

    __slots__ = ("_bounds", "_series", "metric")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._bounds = metric.buckets
        self._series: dict[Labels, _Series] = {} if metric.labels else {(): _Series(len(metric.buckets))}

    def add(self, value: float, labels: Labels = ()) -> None:
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Series(len(self._bounds))
        series.counts[bisect_left(self._bounds, value)] += 1
        series.total += value

    def samples(self) -> Mapping[Labels, Distribution]:
        return {
            labels: Distribution(tuple(series.counts), series.total)
            for labels, series in self._series.items()
        }


class _Series:
    __slots__ = ("counts", "total")

    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        self.total = 0.0
