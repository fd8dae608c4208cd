"""Collects what was found about the files of entries, and sends it to the daemon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

from agentctx.wire import FileMark, MarkFilesReply

MAX_MARKED = 1_000
"""The daemon's maximum number of entries per request."""
_MAX_REASON_CHARS = 300


class MarkingClient(Protocol):
    """The part of `Client` that marking needs."""

    def mark_files(self, namespace: str, marks: Sequence[FileMark]) -> MarkFilesReply: ...


class Marks:
    """The marks of one pass."""

    def __init__(self) -> None:
        self._ids: dict[tuple[Literal["present", "stale", "withdrawn"], str], list[str]] = {}

    def add(
        self, ids: Sequence[str], state: Literal["present", "stale", "withdrawn"], reason: str = ""
    ) -> None:
        if ids:
            self._ids.setdefault((state, reason[:_MAX_REASON_CHARS]), []).extend(ids)

    def send(self, client: MarkingClient, namespace: str) -> None:
        """Send all marks, and forget them. Raises `AgentctxError`."""
        for mark in self._batches():
            client.mark_files(namespace, [mark])
        self._ids.clear()

    def _batches(self) -> Iterator[FileMark]:
        for (state, reason), ids in self._ids.items():
            for start in range(0, len(ids), MAX_MARKED):
                yield FileMark(entries=ids[start : start + MAX_MARKED], state=state, reason=reason)
