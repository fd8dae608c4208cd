"""All metrics: name, kind, meaning and labels. `docs/observability.md` shows the same table.

Seconds and bytes are plain units. Labels come from bounded sets: never ids, paths, names or texts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LAG = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_POWERS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
Labels: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric of the text format. `buckets` are the upper bounds of a histogram."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, "counter", meaning, labels)


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, "gauge", meaning, labels)


def _histogram(name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = _FAST) -> Metric:
    return Metric(name, "histogram", meaning, labels, buckets)


SAVES = _counter(
    "agentctx_saves_total",
    "Successful saves, by change: created, version (another text), attributes (a version with the same "
    "text), in_place (no version: counts, a renewed ttl) or none",
    "collection",
    "change",
)
EDITS = _counter("agentctx_edits_total", "Successful changes of entries by id", "change")
SAVE_FAILURES = _counter("agentctx_save_failures_total", "Saves and edits refused, by error code", "code")
FLAGS = _counter("agentctx_flags_total", "Flags set on saved, changed and imported texts", "flag")
QUARANTINED = _gauge("agentctx_quarantined", "Entries in quarantine, which are in no answer")
SAVE_SECONDS = _histogram("agentctx_save_seconds", "From a valid request to the commit of its entry")
COMMIT_SECONDS = _histogram("agentctx_commit_seconds", "Writing and committing one group of writes")
COMMIT_MEMBERS = _histogram("agentctx_commit_members", "Writes that shared one commit", buckets=_POWERS)

QUEUE_PENDING = _gauge("agentctx_queue_pending", "Pending embeddings")
QUEUE_BURIED = _gauge("agentctx_queue_buried", "Embeddings given up")
QUEUE_OLDEST = _gauge(
    "agentctx_queue_oldest_seconds", "Age of the oldest pending embedding; 0 when there is none"
)
BATCH_SECONDS = _histogram(
    "agentctx_embed_batch_seconds", "One provider call of the queue, successful or failed", buckets=_SLOW
)
BATCH_TEXTS = _histogram(
    "agentctx_embed_batch_texts", "Texts in one provider call of the queue", buckets=_POWERS
)
PROVIDER_CALLS = _counter(
    "agentctx_provider_calls_total",
    "Calls of the embedding provider: batch, query, probe, canary, calibration or comparison",
    "kind",
)
PROVIDER_FAILURES = _counter(
    "agentctx_provider_failures_total",
    "Failed calls, by disposition: retry, later, split, bury, stop or cancelled",
    "kind",
    "disposition",
)
VECTORS_STORED = _counter("agentctx_vectors_stored_total", "Vectors stored by the queue")
VECTORS_STALE = _counter(
    "agentctx_vectors_stale_total", "Vectors dropped because their entry was changed or removed meanwhile"
)
JOBS_BURIED = _counter("agentctx_jobs_buried_total", "Embeddings given up since the start")
TOKENS_SENT = _counter(
    "agentctx_provider_tokens_total", "Tokens sent to a provider over HTTP, as it counts them or estimated"
)
USD_SPENT = _counter("agentctx_provider_usd_total", "Cost of those tokens, if a price is known")
USD_TODAY = _gauge("agentctx_provider_usd_today", "Cost since 00:00 UTC, including before the last start")
USD_CAP = _gauge("agentctx_provider_usd_cap", "Maximum cost per day; 0 without a cap")
EMBEDDINGS_READY = _gauge("agentctx_embeddings_ready", "1 when meaning takes part in answers, else 0")

SEARCH_SECONDS = _histogram(
    "agentctx_search_seconds",
    "Answering a question, by stage: words, embed, vectors, distances, fuse, traits, rank, resolve, rate, "
    "judge, rerank and total",
    "stage",
)
DEGRADED = _counter(
    "agentctx_degraded_answers_total",
    "Searches that used keywords only, or lacked some keywords, by class",
    "reason",
)

INJECTIONS = _counter(
    "agentctx_injections_total",
    "LLM calls that got context: a new block, or only the blocks of earlier calls",
    "position",
    "block",
)
QUOTA_REFUSALS = _counter(
    "agentctx_quota_refusals_total",
    "Refusals to users with quotas, by quota: requests, connections, queue or stored",
    "quota",
)

NOT_INJECTED = _counter(
    "agentctx_injections_left_out_total", "LLM calls without a block for their question, by reason", "reason"
)

RECEIPTS_DROPPED = _counter(
    "agentctx_receipts_dropped_total", "Receipts of injections that could not be stored"
)

REQUESTS = _counter(
    "agentctx_http_requests_total",
    "Requests answered, without probes and /metrics; route is a template or unknown",
    "route",
    "method",
    "status",
)
REQUEST_SECONDS = _histogram("agentctx_http_request_seconds", "Answering a request", "route")

DATABASE_READABLE = _gauge("agentctx_database_readable", "1 when the queue could be read just now, else 0")
DATABASE_WRITABLE = _gauge(
    "agentctx_database_writable", "0 while the disk has failed and the database is not verified yet, else 1"
)
DATABASE_BYTES = _gauge("agentctx_database_bytes", "Size of the database file")
CHECKSUM_FAILURES = _counter(
    "agentctx_checksum_failures_total", "Reads that found a damaged entry or vector and left it out"
)
WAL_BYTES = _gauge("agentctx_wal_bytes", "Size of the write-ahead log")

PROVED_AT = _gauge(
    "agentctx_proof_timestamp_seconds", "Time of the last proof of what is stored, in seconds since 1970"
)
INVARIANT_VIOLATIONS = _gauge("agentctx_invariant_violations", "Violations that the last census found")
FINGERPRINT_MISMATCHES = _gauge(
    "agentctx_fingerprint_mismatches", "Spaces whose vectors did not match a running model at the last proof"
)
CANARIES = _gauge(
    "agentctx_canaries", "Stored chunks that the last proof searched for, by their own words or vectors", "by"
)
CANARIES_LOST = _gauge("agentctx_canaries_lost", "Canaries that were not found", "by")

BACKUP_MADE = _gauge(
    "agentctx_backup_timestamp_seconds",
    "Time of the last automatic backup, in seconds since 1970; 0 without one",
)

LOOP_LAG = _histogram(
    "agentctx_loop_lag_seconds", "How late the event loop was for an alarm, once a second", buckets=_LAG
)
LOOP_LAG_WORST = _gauge("agentctx_loop_lag_worst_seconds", "Longest lag in the last five minutes")
EMBED_CPU = _counter("agentctx_embed_cpu_seconds_total", "CPU time spent inside the embedder")
BUILD = _gauge(
    "agentctx_build_info", "Always 1; the labels show what is running", "version", "python", "sqlite"
)
RESIDENT = _gauge("process_resident_memory_bytes", "Memory of the process in RAM")
CPU = _counter("process_cpu_seconds_total", "CPU time of the process, user and system")
STARTED = _gauge("process_start_time_seconds", "When the process started, in seconds since 1970")

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All metrics, in the order of this file."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many values fell into each bucket, with an extra one above the last bound; and their sum."""

    counts: tuple[int, ...]
    total: float


Samples: TypeAlias = Mapping[Metric, Mapping[Labels, float | Distribution]]
"""The samples of each metric, by the values of its labels."""


class Counter:
    """A counter. Without labels it starts at 0, so that it is shown before the first event."""

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


class Histogram:
    """A histogram."""

    __slots__ = ("_counts", "_totals", "metric")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._counts: dict[Labels, list[int]] = {} if metric.labels else {(): self._no_counts()}
        self._totals: dict[Labels, float] = defaultdict(float)

    def add(self, value: float, labels: Labels = ()) -> None:
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = self._no_counts()
        counts[bisect_left(self.metric.buckets, value)] += 1
        self._totals[labels] += value

    def samples(self) -> Mapping[Labels, Distribution]:
        return {
            labels: Distribution(tuple(counts), self._totals[labels])
            for labels, counts in self._counts.items()
        }

    def _no_counts(self) -> list[int]:
        return [0] * (len(self.metric.buckets) + 1)
