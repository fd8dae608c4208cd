"""The text format of Prometheus. Imported on first use, because the package loads slowly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from agentctx.service.telemetry.metrics import Distribution, Labels, Metric, Samples


def exposition(samples: Samples) -> bytes:
    """Render the samples in the text format. Metrics without a sample are announced too."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(samples))
    return generate_latest(registry)


class _Samples(Collector):
    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def describe(self) -> list[Family]:
        return []  # otherwise registering would collect once for nothing

    def collect(self) -> Iterator[Family]:
        for metric, values in self._samples.items():
            yield _family(metric, values)


def _family(metric: Metric, values: Mapping[Labels, float | Distribution]) -> Family:
    if metric.kind == "histogram":
        return _histogram(metric, cast("Mapping[Labels, Distribution]", values))
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in cast("Mapping[Labels, float]", values).items():
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, values: Mapping[Labels, Distribution]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    bounds = [*(str(bound) for bound in metric.buckets), "+Inf"]
    for labels, distribution in values.items():
        reached = accumulate(distribution.counts)
        family.add_metric(labels, list(zip(bounds, reached, strict=True)), distribution.total)
    return family
