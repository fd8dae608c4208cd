"""The interface to which modules report their work. It knows nothing of metrics or traces.

An operation is measured once, from enter to exit, for all listeners:

    with telemetry.saving() as saving:
        saved = await storage.entries.save(draft)
        saving.ended(collection, saved.change)

Unless stated otherwise, reports contain no texts, and no names or ids chosen by a caller: they end up as
labels, and every label costs memory forever.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Literal, Self, TypeAlias

from agentctx.wire.protocol import InjectionPosition

Stage: TypeAlias = Literal[
    "words", "vectors", "distances", "fuse", "traits", "rank", "resolve", "rate", "judge", "rerank"
]
"""A part of answering a question. Embedding the question is reported with `Telemetry.embedding`."""
EmbedKind: TypeAlias = Literal["batch", "query", "probe", "canary", "calibration", "comparison"]
"""Why the provider is called: to embed saved texts or a question, to learn which model answers, to tell a bad
text from a bad provider, to calibrate relevance to a model, or to compare two models."""
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


class Measurement:
    """An operation in progress. It ends with its `with` block, even by an exception.

    This one measures nothing.
    """

    __slots__ = ()

    def ended(self, *labels: str) -> None:
        """Set how the operation ended, in labels as its `Telemetry` method requires. The last call counts."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


_NO_MEASUREMENT = Measurement()


class Telemetry:
    """Receives reports. Use it from one event loop; calls take microseconds and never raise.

    This one ignores all reports.
    """

    def request(self, method: str, headers: Headers, request_id: str) -> Measurement:  # noqa: ARG002
        """Measure an HTTP request. Ends with its route template and status, as in `("/v1/search", "200")`.

        Headers may carry the caller's trace. The id is for traces and is not used as a label.
        """
        return _NO_MEASUREMENT

    def saving(self) -> Measurement:
        """Measure a save. Ends with an existing collection and the kind of change, or with an exception."""
        return _NO_MEASUREMENT

    def editing(self) -> Measurement:
        """Measure a change of an entry by id. Ends with the kind of change, or with an exception."""
        return _NO_MEASUREMENT

    def answering(self, limit: int) -> Measurement:  # noqa: ARG002
        """Measure a question for up to `limit` passages. Ends with its class of degradation, or no label."""
        return _NO_MEASUREMENT

    def stage(self, stage: Stage) -> Measurement:  # noqa: ARG002
        """Measure a part of answering; ends without labels."""
        return _NO_MEASUREMENT

    def passed(self, stage: Stage, began: float, seconds: float) -> None:
        """Report a stage that was measured elsewhere; `began` is a time of `perf_counter`."""

    def embedding(self, kind: EmbedKind, texts: int) -> Measurement:  # noqa: ARG002
        """Measure a provider call with `texts` texts. Ends with the disposition of a failure, or no label."""
        return _NO_MEASUREMENT

    def injected(self, position: InjectionPosition, block: str) -> None:
        """Report that an LLM call got context: a `new` block, or `again` only blocks of earlier calls."""

    def not_injected(self, reason: str) -> None:
        """Report an LLM call without a block for its question; the reason is one word of a bounded set."""

    def quota_exceeded(self, quota: str) -> None:
        """Report that a caller exceeded a quota, named by one word of a bounded set."""

    def capture_refused(self) -> None:
        """Report that the save of an agent's hook was refused."""

    def flagged(self, flags: Iterable[str]) -> None:
        """Report the flags of a saved text, words of a bounded set."""

    def committed(self, seconds: float, members: int) -> None:
        """Report a group of writes committed together."""

    def loop_lagged(self, seconds: float) -> None:
        """Report by how much the event loop was late for an alarm."""


NO_TELEMETRY = Telemetry()
"""The default of every module that reports something."""
