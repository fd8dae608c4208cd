"""Recorded events, and the metrics read afterwards."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.errors import Disposition, ProviderFailed, StorageFailed, VersionConflict
from agentctx.service.telemetry.prometheus import exposition
from agentctx.service.telemetry.recorder import RecentDurations, Recorder, nearest_rank
from agentctx.telemetry import NO_TELEMETRY, Telemetry
from agentctx.wire import Latency
from tests.service.telemetry.scraped import Scraped, scraped


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def shown(recorder: Recorder) -> Scraped:
    return scraped(exposition(recorder.samples()))


def save(telemetry: Telemetry, change: str = "created") -> None:
    with telemetry.saving() as saving:
        saving.ended("knowledge", change)


def test_a_save_is_counted_by_collection_and_change(recorder: Recorder) -> None:
    save(recorder)
    save(recorder)
    save(recorder, "none")
    metrics = shown(recorder)
    assert metrics['agentctx_saves_total{change="created",collection="knowledge"}'] == 2
    assert metrics['agentctx_saves_total{change="none",collection="knowledge"}'] == 1
    assert metrics["agentctx_save_seconds_count"] == 3


def test_flags_are_counted_each_separately(recorder: Recorder) -> None:
    recorder.flagged(["hidden-text", "new-role"])
    recorder.flagged(["new-role"])
    recorder.flagged([])
    metrics = shown(recorder)
    assert metrics['agentctx_flags_total{flag="hidden-text"}'] == 1
    assert metrics['agentctx_flags_total{flag="new-role"}'] == 2


def test_a_refused_save_is_counted_by_its_error_code(recorder: Recorder) -> None:
    with pytest.raises(VersionConflict), recorder.saving():
        raise VersionConflict("stale")
    with pytest.raises(KeyError), recorder.editing():
        raise KeyError("a text")
    metrics = shown(recorder)
    assert metrics['agentctx_save_failures_total{code="version_conflict"}'] == 1
    assert metrics['agentctx_save_failures_total{code="other"}'] == 1
    assert metrics["agentctx_save_seconds_count"] == 0
    assert not [name for name in metrics if "text" in name and "texts" not in name]


def test_a_question_has_a_total_and_its_stages(recorder: Recorder) -> None:
    with recorder.answering(5):
        with recorder.stage("words"):
            pass
        with recorder.embedding("query", 1):
            pass
        recorder.passed("vectors", 0.0, 0.25)
    metrics = shown(recorder)
    assert metrics['agentctx_search_seconds_sum{stage="vectors"}'] == 0.25
    for stage in ("words", "embed", "vectors", "total"):
        assert metrics[f'agentctx_search_seconds_count{{stage="{stage}"}}'] == 1
    assert not [name for name in metrics if "degraded" in name]


def test_a_degraded_answer_has_its_class(recorder: Recorder) -> None:
    with recorder.answering(5) as answering:
        answering.ended("deadline")
    assert shown(recorder)['agentctx_degraded_answers_total{reason="deadline"}'] == 1
    assert recorder.activity(embedded=0).degraded == 1


def test_a_failed_question_is_not_counted_as_an_answer(recorder: Recorder) -> None:
    with pytest.raises(StorageFailed), recorder.answering(5):
        raise StorageFailed("gone")
    assert recorder.activity(embedded=0).asked == 0


def test_provider_calls_are_counted_by_kind_and_outcome(recorder: Recorder) -> None:
    with recorder.embedding("batch", 32):
        pass
    with recorder.embedding("batch", 3) as call:
        call.ended("split")
    with pytest.raises(ProviderFailed), recorder.embedding("probe", 1):
        raise ProviderFailed("no key", disposition=Disposition.STOP)
    with pytest.raises(asyncio.CancelledError), recorder.embedding("query", 1):
        raise asyncio.CancelledError
    metrics = shown(recorder)
    assert metrics['agentctx_provider_calls_total{kind="batch"}'] == 2
    assert metrics['agentctx_provider_failures_total{disposition="split",kind="batch"}'] == 1
    assert metrics['agentctx_provider_failures_total{disposition="stop",kind="probe"}'] == 1
    assert metrics['agentctx_provider_failures_total{disposition="cancelled",kind="query"}'] == 1
    assert metrics["agentctx_embed_batch_texts_sum"] == 35
    assert metrics['agentctx_embed_batch_texts_bucket{le="4.0"}'] == 1
    assert metrics["agentctx_embed_batch_seconds_count"] == 2


def test_requests_are_counted_by_template_method_and_class(recorder: Recorder) -> None:
    with recorder.request("GET", (), "r1") as request:
        request.ended("/v1/entries/{entry_id}", "404")
    metrics = shown(recorder)
    labels = 'method="GET",route="/v1/entries/{entry_id}",status="4xx"'
    assert metrics[f"agentctx_http_requests_total{{{labels}}}"] == 1
    assert metrics['agentctx_http_request_seconds_count{route="/v1/entries/{entry_id}"}'] == 1


def test_a_request_that_crashed_is_a_fault(recorder: Recorder) -> None:
    with pytest.raises(RuntimeError), recorder.request("GET", (), "r1"):
        raise RuntimeError("torn")
    assert shown(recorder)['agentctx_http_requests_total{method="GET",route="unknown",status="5xx"}'] == 1


def test_commits_and_lags(recorder: Recorder) -> None:
    recorder.committed(0.002, 7)
    recorder.loop_lagged(0.3)
    metrics = shown(recorder)
    assert metrics["agentctx_commit_seconds_sum"] == 0.002
    assert metrics['agentctx_commit_members_bucket{le="8.0"}'] == 1
    assert metrics['agentctx_commit_members_bucket{le="4.0"}'] == 0
    assert metrics['agentctx_loop_lag_seconds_bucket{le="0.25"}'] == 0
    assert metrics['agentctx_loop_lag_seconds_bucket{le="0.5"}'] == 1


def test_activity_counts_changes(recorder: Recorder) -> None:
    save(recorder)
    save(recorder, "version")
    save(recorder, "none")
    for change in ("attributes", "none"):
        with recorder.editing() as editing:
            editing.ended(change)
    with recorder.embedding("batch", 2) as call:
        call.ended("retry")
    activity = recorder.activity(embedded=4)
    assert (activity.saved, activity.embedded, activity.provider_failures) == (3, 4, 1)
    assert activity.save is not None
    assert activity.embed is not None
    assert activity.ask is None


def test_reports_without_a_listener_are_ignored() -> None:
    save(NO_TELEMETRY)
    with NO_TELEMETRY.request("GET", (), "r"), NO_TELEMETRY.answering(1), NO_TELEMETRY.stage("fuse"):
        pass
    with pytest.raises(StorageFailed), NO_TELEMETRY.editing(), NO_TELEMETRY.embedding("batch", 1):
        raise StorageFailed("it goes on")
    NO_TELEMETRY.committed(1.0, 1)
    NO_TELEMETRY.loop_lagged(1.0)


def test_injections_are_counted_by_position_and_by_why_not(recorder: Recorder) -> None:
    recorder.injected("tail", "new")
    recorder.injected("tail", "again")
    recorder.not_injected("nothing_relevant")
    NO_TELEMETRY.injected("tail", "new")
    NO_TELEMETRY.not_injected("off")
    metrics = shown(recorder)
    assert metrics['agentctx_injections_total{block="new",position="tail"}'] == 1
    assert metrics['agentctx_injections_total{block="again",position="tail"}'] == 1
    assert metrics['agentctx_injections_left_out_total{reason="nothing_relevant"}'] == 1


durations = st.lists(st.floats(0, 100), min_size=1, max_size=50)


def test_no_activity_is_reported_before_the_first_event() -> None:
    assert RecentDurations().latency() is None


def test_percentiles_in_milliseconds() -> None:
    recent = RecentDurations()
    for number in range(100, 0, -1):
        recent.add(number / 1_000)
    assert recent.latency() == Latency(p50_ms=50.0, p95_ms=95.0)


def test_the_oldest_duration_is_dropped() -> None:
    recent = RecentDurations(size=2)
    for seconds in (100.0, 0.001, 0.001):
        recent.add(seconds)
    assert recent.latency() == Latency(p50_ms=1.0, p95_ms=1.0)


@given(durations, st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_value_covering_the_share(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = nearest_rank(ordered, share)
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values)
