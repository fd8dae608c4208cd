"""Collects what was found about the files of entries, and sends it to the daemon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from agentctx.wire import MAX_MARKED, FileMark, MarkFilesReply

State: TypeAlias = Literal["present", "stale", "withdrawn"]


class MarkingClient(Protocol):
    """The part of `Client` that marking needs."""

    def mark_files(self, namespace: str, marks: Sequence[FileMark]) -> MarkFilesReply: ...


class Marks:
    """The marks of one pass."""

    def __init__(self) -> None:
        self._ids: dict[tuple[State, str], list[str]] = {}

    def add(self, ids: Sequence[str], state: State, reason: str = "") -> None:
        self._ids.setdefault((state, reason), []).extend(ids)

    def send(self, client: MarkingClient, namespace: str) -> None:
        """Send all marks, and forget them. Raises `AgentctxError`."""
        for (state, reason), ids in self._ids.items():
            for start in range(0, len(ids), MAX_MARKED):
                batch = ids[start : start + MAX_MARKED]
                client.mark_files(namespace, [FileMark(entries=batch, state=state, reason=reason)])
        self._ids.clear()
