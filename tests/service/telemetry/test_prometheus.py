from __future__ import annotations

from agentctx.service.telemetry.metrics import METRICS, Distribution, Metric
from agentctx.service.telemetry.prometheus import exposition
from tests.service.telemetry.scraped import family_types, scraped

SECONDS = Metric("a_seconds", "histogram", "How long.", ("stage",), (0.5, 1.0))


def test_buckets_are_cumulative_and_end_with_infinity() -> None:
    page = exposition({SECONDS: {("words",): Distribution((2, 0, 1), 3.5)}})
    assert scraped(page) == {
        'a_seconds_bucket{le="0.5",stage="words"}': 2,
        'a_seconds_bucket{le="1.0",stage="words"}': 2,
        'a_seconds_bucket{le="+Inf",stage="words"}': 3,
        'a_seconds_count{stage="words"}': 3,
        'a_seconds_sum{stage="words"}': 3.5,
    }


def test_counters_and_gauges_keep_their_names() -> None:
    counter = Metric("saves_total", "counter", "Saves.", ("collection",))
    gauge = Metric("depth", "gauge", "Depth.")
    page = exposition({counter: {("knowledge",): 2.0}, gauge: {(): 7.0}})
    assert scraped(page) == {'saves_total{collection="knowledge"}': 2, "depth": 7}
    assert family_types(page) == {"saves_total": "counter", "depth": "gauge"}


def test_a_label_of_any_text_does_not_break_the_page() -> None:
    gauge = Metric("depth", "gauge", 'With a \\ and a\nline "quoted".', ("x",))
    page = exposition({gauge: {('a"b\\c\nd',): 1.0}, SECONDS: {}})
    assert len(scraped(page)) == 1
    assert family_types(page) == {"depth": "gauge", "a_seconds": "histogram"}


def test_every_metric_follows_the_conventions_of_prometheus() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.startswith(("agentctx_", "process_"))
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.meaning
        assert not metric.meaning.endswith(".")
        assert bool(metric.buckets) == (metric.kind == "histogram")
        assert list(metric.buckets) == sorted(metric.buckets)
