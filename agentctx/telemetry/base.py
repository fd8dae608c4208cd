"""How modules report their work. They know this interface and nothing of metrics or traces.

An operation is measured once, from enter to exit, for all listeners:

    with telemetry.saving() as saving:
        saved = await storage.entries.save(draft)
        saving.ended(collection, saved.change)

Nothing reported here contains texts, names or ids that a caller chose, except where stated: reports end up
as labels, and every label costs memory forever.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from agentctx.wire.names import InjectionPosition

Stage: TypeAlias = Literal["words", "vectors", "distances", "fuse", "resolve", "rank", "rerank"]
"""A part of answering a question. Embedding it is reported with `Telemetry.embedding`."""
EmbedKind: TypeAlias = Literal["batch", "query", "probe"]
"""Why the provider is called: to embed saved texts, to embed a question, to see whether it answers."""
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


class Measurement(Protocol):
    """An operation in progress. It ends with its `with` block, also by an exception."""

    def ended(self, *labels: str) -> None:
        """How it ended: what the method of `Telemetry` that began it asks for. The last call counts."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Telemetry(Protocol):
    """Where reports go. Everything belongs to one event loop, costs microseconds and never raises."""

    def request(self, method: str, headers: Headers, request_id: str) -> Measurement:
        """An HTTP request. Ends with the template of its route and its status, as `("/v1/search", "200")`.

        Headers may carry the trace of the caller. The id is for traces, no label.
        """
        ...

    def saving(self) -> Measurement:
        """A save. Ends with a collection that exists and what changed; else an exception says why not."""
        ...

    def editing(self) -> Measurement:
        """A change of an entry by its id. Ends with what changed; else an exception says why not."""
        ...

    def asking(self, limit: int) -> Measurement:
        """A question for up to `limit` passages. Ends with the class of its degradation, or with nothing."""
        ...

    def stage(self, stage: Stage) -> Measurement:
        """A part of answering; its end says nothing."""
        ...

    def embedding(self, kind: EmbedKind, texts: int) -> Measurement:
        """A call of the provider with so many texts. Ends with the disposition of its failure, or nothing."""
        ...

    def injected(self, position: InjectionPosition, block: str) -> None:
        """An LLM call got its context: a `new` block, or `again` only blocks of earlier calls."""
        ...

    def not_injected(self, reason: str) -> None:
        """An LLM call went out without a block for its question; why, in one word of a bounded set."""
        ...

    def refused(self, quota: str) -> None:
        """A caller was over a quota; which one, in one word of a bounded set."""
        ...

    def flagged(self, flags: Iterable[str]) -> None:
        """A text that was saved looks like that; words of a bounded set."""
        ...

    def committed(self, seconds: float, members: int) -> None:
        """A group of writes was committed together."""
        ...

    def lagged(self, seconds: float) -> None:
        """The event loop was that late for an alarm."""
        ...


class NoOperation:
    """Measures nothing."""

    __slots__ = ()

    def ended(self, *labels: str) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


NO_OPERATION = NoOperation()


class NoTelemetry:
    """Listens to nothing."""

    def request(self, method: str, headers: Headers, request_id: str) -> Measurement:  # noqa: ARG002 - protocol
        return NO_OPERATION

    def saving(self) -> Measurement:
        return NO_OPERATION

    def editing(self) -> Measurement:
        return NO_OPERATION

    def asking(self, limit: int) -> Measurement:  # noqa: ARG002 - protocol
        return NO_OPERATION

    def stage(self, stage: Stage) -> Measurement:  # noqa: ARG002 - protocol
        return NO_OPERATION

    def embedding(self, kind: EmbedKind, texts: int) -> Measurement:  # noqa: ARG002 - protocol
        return NO_OPERATION

    def injected(self, position: InjectionPosition, block: str) -> None: ...

    def not_injected(self, reason: str) -> None: ...

    def refused(self, quota: str) -> None: ...

    def flagged(self, flags: Iterable[str]) -> None: ...

    def committed(self, seconds: float, members: int) -> None: ...

    def lagged(self, seconds: float) -> None: ...


NO_TELEMETRY: Telemetry = NoTelemetry()
"""The default of every module that reports something."""
