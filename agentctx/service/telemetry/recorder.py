"""Turn reports into counts, distributions and recent durations."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import Self, TypeAlias

from agentctx import wire
from agentctx.service.telemetry import metrics
from agentctx.service.telemetry.labels import failure_code, provider_failure, status_class
from agentctx.service.telemetry.loop_lag import LoopLag
from agentctx.service.telemetry.metrics import Counter, Histogram, Labels, Samples
from agentctx.telemetry import EmbedKind, Headers, Measurement, Stage, Telemetry
from agentctx.wire import InjectionPosition

Record: TypeAlias = Callable[[float, Labels, BaseException | None], None]
"""Receives the seconds, the labels, and the exception that ended the operation, if any."""

NO_CHANGE = "none"
RECENT_SIZE = 512
_PURPOSES = {"batch": "jobs", "query": "questions"}


class Recorder(Telemetry):
    """A `Telemetry` that counts from its creation, at the start of the daemon."""

    def __init__(self) -> None:
        self.started = time.time()
        """Time of creation, in seconds since 1970."""
        self._saves = Counter(metrics.SAVES)
        self._edits = Counter(metrics.EDITS)
        self._save_failures = Counter(metrics.SAVE_FAILURES)
        self._save_seconds = Histogram(metrics.SAVE_SECONDS)
        self._commit_seconds = Histogram(metrics.COMMIT_SECONDS)
        self._commit_members = Histogram(metrics.COMMIT_MEMBERS)
        self._batch_seconds = Histogram(metrics.BATCH_SECONDS)
        self._batch_texts = Histogram(metrics.BATCH_TEXTS)
        self._provider_calls = Counter(metrics.PROVIDER_CALLS)
        self._provider_failures = Counter(metrics.PROVIDER_FAILURES)
        self._search_seconds = Histogram(metrics.SEARCH_SECONDS)
        self._degraded = Counter(metrics.DEGRADED)
        self._injections = Counter(metrics.INJECTIONS)
        self._not_injected = Counter(metrics.NOT_INJECTED)
        self._quota_refusals = Counter(metrics.QUOTA_REFUSALS)
        self._flags = Counter(metrics.FLAGS)
        self._requests = Counter(metrics.REQUESTS)
        self._request_seconds = Histogram(metrics.REQUEST_SECONDS)
        self._loop_lag = Histogram(metrics.LOOP_LAG)
        self.loop_lag = LoopLag()
        self.captures_refused = 0
        self._asked = 0
        self._recent_saves = RecentDurations()
        self._recent_answers = RecentDurations()
        self._recent_calls = RecentDurations()

    def request(self, method: str, headers: Headers, request_id: str) -> Measurement:  # noqa: ARG002 - for traces
        return _TimedMeasurement(partial(self._answered, method))

    def saving(self) -> Measurement:
        return _TimedMeasurement(partial(self._changed, self._saves))

    def editing(self) -> Measurement:
        return _TimedMeasurement(partial(self._changed, self._edits))

    def answering(self, limit: int) -> Measurement:  # noqa: ARG002 - for traces
        return _TimedMeasurement(self._answered_question)

    def stage(self, stage: Stage) -> Measurement:
        return _TimedMeasurement(partial(self._passed, stage))

    def passed(self, stage: Stage, began: float, seconds: float) -> None:  # noqa: ARG002 - for traces
        self._search_seconds.add(seconds, (stage,))

    def embedding(self, kind: EmbedKind, texts: int) -> Measurement:
        return _TimedMeasurement(partial(self._called, kind, texts))

    def injected(self, position: InjectionPosition, block: str) -> None:
        self._injections.add((position, block))

    def not_injected(self, reason: str) -> None:
        self._not_injected.add((reason,))

    def quota_exceeded(self, quota: str) -> None:
        self._quota_refusals.add((quota,))

    def capture_refused(self) -> None:
        self.captures_refused += 1

    def flagged(self, flags: Iterable[str]) -> None:
        for flag in flags:
            self._flags.add((flag,))

    def committed(self, seconds: float, members: int) -> None:
        self._commit_seconds.add(seconds)
        self._commit_members.add(members)

    def loop_lagged(self, seconds: float) -> None:
        self._loop_lag.add(seconds)
        self.loop_lag.record(seconds)

    def activity(self, *, embedded: int) -> wire.ActivityStatus:
        """Return what happened since the start; the queue counts the `embedded` vectors."""
        return wire.ActivityStatus(
            saved=_changes(self._saves) + _changes(self._edits),
            asked=self._asked,
            degraded=self._degraded.total(),
            embedded=embedded,
            provider_failures=self._provider_failures.total(),
            requests={
                _PURPOSES.get(kind, kind): int(calls)
                for (kind,), calls in self._provider_calls.samples().items()
            },
            captures_refused=self.captures_refused,
            save=self._recent_saves.latency(),
            ask=self._recent_answers.latency(),
            embed=self._recent_calls.latency(),
        )

    def samples(self) -> Samples:
        """Return a copy of every count and distribution."""
        return {
            series.metric: series.samples()
            for series in vars(self).values()
            if isinstance(series, Counter | Histogram)
        }

    def _answered(self, method: str, seconds: float, labels: Labels, _: BaseException | None) -> None:
        route, status = labels or ("unknown", "500")
        self._requests.add((route, method, status_class(status)))
        self._request_seconds.add(seconds, (route,))

    def _changed(self, count: Counter, seconds: float, labels: Labels, error: BaseException | None) -> None:
        if error is not None:
            self._save_failures.add((failure_code(error),))
            return
        count.add(labels)
        self._save_seconds.add(seconds)
        self._recent_saves.add(seconds)

    def _answered_question(self, seconds: float, labels: Labels, error: BaseException | None) -> None:
        if error is not None:
            return  # no answer: the request's status reports it
        self._asked += 1
        self._search_seconds.add(seconds, ("total",))
        self._recent_answers.add(seconds)
        if labels:
            self._degraded.add(labels)

    def _passed(self, stage: Stage, seconds: float, _: Labels, __: BaseException | None) -> None:
        self._search_seconds.add(seconds, (stage,))

    def _called(
        self, kind: EmbedKind, texts: int, seconds: float, labels: Labels, error: BaseException | None
    ) -> None:
        self._provider_calls.add((kind,))
        if kind == "query":
            self._search_seconds.add(seconds, ("embed",))
        elif kind == "batch":
            self._batch_seconds.add(seconds)
            self._batch_texts.add(texts)
            self._recent_calls.add(seconds)
        if error is not None:
            self._provider_failures.add((kind, provider_failure(error)))
        elif labels:
            self._provider_failures.add((kind, *labels))


class _TimedMeasurement(Measurement):
    """An operation whose end is recorded."""

    __slots__ = ("_labels", "_record", "_started")

    def __init__(self, record: Record) -> None:
        self._record = record
        self._labels: Labels = ()
        self._started = 0.0

    def ended(self, *labels: str) -> None:
        self._labels = labels

    def __enter__(self) -> Self:
        self._started = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._record(perf_counter() - self._started, self._labels, error)


def _changes(count: Counter) -> int:
    return int(sum(times for labels, times in count.values.items() if labels[-1] != NO_CHANGE))


class RecentDurations:
    """A ring buffer of durations in seconds; the oldest is dropped."""

    __slots__ = ("_seconds",)

    def __init__(self, size: int = RECENT_SIZE) -> None:
        self._seconds: deque[float] = deque(maxlen=size)

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def latency(self) -> wire.Latency | None:
        """Return the latency, or None before the first event."""
        if not self._seconds:
            return None
        ordered = sorted(self._seconds)
        return wire.Latency(p50_ms=_milliseconds(ordered, 0.50), p95_ms=_milliseconds(ordered, 0.95))


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """Return the least value that at least `share` of the sorted values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _milliseconds(ordered: Sequence[float], share: float) -> float:
    return round(nearest_rank(ordered, share) * 1_000, 3)
