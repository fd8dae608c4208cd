"""An in-memory memory: the part of the client that a pass needs, with a record of every request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Unpack

from agentctx.client.options import ListOptions
from agentctx.errors import AgentctxError, NotFound
from agentctx.wire import EntryView, FileMark, FileState, ForgetReply, MarkFilesReply, SaveRequest, SaveResult


class Memory:
    """Entries by key. Saves come back in batches, as from the daemon."""

    def __init__(self, batch: int = 3) -> None:
        self.entries: dict[str, SaveRequest] = {}
        self.saved: list[str] = []
        """Keys, in the order of the saves."""
        self.forgotten: list[str] = []
        self.states: dict[str, FileState] = {}
        """What is known about the files of entries, by key."""
        self.refusals: dict[str, AgentctxError] = {}
        """Keys that are refused."""
        self._batch = batch

    def iterate(self, **options: Unpack[ListOptions]) -> Iterator[EntryView]:
        prefix = options["key_prefix"] or ""
        return (
            _view(key, request, self.states.get(key))
            for key, request in list(self.entries.items())
            if key.startswith(prefix) and request.namespace == options["namespace"]
        )

    def save_all(self, requests: Iterable[SaveRequest]) -> Iterator[SaveResult | AgentctxError]:
        waiting: list[SaveRequest] = []
        for request in requests:
            waiting.append(request)
            if len(waiting) == self._batch:
                yield from [self._save(each) for each in waiting]
                waiting = []
        yield from [self._save(each) for each in waiting]

    def forget(self, entry_id: str) -> ForgetReply:
        if self.entries.pop(entry_id, None) is None:
            raise NotFound(f"Entry {entry_id!r} does not exist.")
        self.forgotten.append(entry_id)
        self.states.pop(entry_id, None)
        return ForgetReply(id=entry_id, versions=1)

    def mark_files(self, namespace: str, marks: Sequence[FileMark]) -> MarkFilesReply:
        for mark in marks:
            for key in mark.entries:
                assert self.entries[key].namespace == namespace
                self.states.pop(key, None)
                if mark.state != "present":
                    self.states[key] = FileState(
                        state=mark.state, reason=mark.reason, since="2026-11-28T08:00:00.000Z", until=None
                    )
        return MarkFilesReply(entries=sum(len(mark.entries) for mark in marks))

    def answered(self) -> list[str]:
        """The keys of the entries that answers include."""
        return sorted(set(self.entries) - self.of_state("withdrawn"))

    def of_state(self, state: str) -> set[str]:
        return {key for key, found in self.states.items() if found.state == state}

    def _save(self, request: SaveRequest) -> SaveResult | AgentctxError:
        key = str(request.key)
        if key in self.refusals:
            return self.refusals[key]
        self.saved.append(key)
        self.entries[key] = request
        return SaveResult(id=key, version=1, changed=True)


def _view(key: str, request: SaveRequest, state: FileState | None) -> EntryView:
    return EntryView(
        id=key,
        version=1,
        live=True,
        namespace=request.namespace,
        collection=request.collection,
        key=key,
        session=None,
        agent=request.agent,
        content="",
        attributes={
            "source": request.source,
            "tags": list(request.tags or []),
            "category": request.category or "fact",
            **({"file": asdict(request.file)} if request.file else {}),
        },
        origin=request.origin,
        trust="external",
        principal=0,
        created="",
        updated="",
        expires=None,
        embedding="off",
        file_state=state,
    )
