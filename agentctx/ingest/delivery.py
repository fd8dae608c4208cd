"""Reads the files of a plan one at a time, sends their parts, and counts the daemon's replies."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePath
from threading import Event
from typing import Protocol, TypeAlias

from agentctx.errors import AgentctxError, NotFound, StorageFailed, Unavailable
from agentctx.ingest.extract import ExtractRefusal, NotIngestible, extract, is_surely_binary
from agentctx.ingest.known import Labels
from agentctx.ingest.names import key_of
from agentctx.ingest.parts import split
from agentctx.ingest.plan import GONE, FileCandidate, FileVerdict, labels_for, missing_file, verdict_on
from agentctx.ingest.progress import IngestProgress
from agentctx.ingest.report import Report
from agentctx.ingest.walk import Found, error_text
from agentctx.wire import FileRecord, ForgetReply, SaveRequest, SaveResult

Outcome: TypeAlias = SaveResult | AgentctxError

_TRANSIENT_REFUSALS = frozenset({ExtractRefusal.NEEDS_EXTRA, ExtractRefusal.TOO_SLOW})
"""Refusals that say nothing about the text, so the file's entries stay."""
HEAD_BYTES = 8_192


class DeliveryClient(Protocol):
    """The part of `Client` that a delivery needs."""

    def save_all(self, requests: Iterable[SaveRequest]) -> Iterator[Outcome]: ...

    def forget(self, entry_id: str) -> ForgetReply: ...


class DryRunClient:
    """A memory for `--dry-run` that accepts everything and keeps nothing."""

    def save_all(self, requests: Iterable[SaveRequest]) -> Iterator[Outcome]:
        return (SaveResult(id="", version=0, changed=True) for _ in requests)

    def forget(self, entry_id: str) -> ForgetReply:
        return ForgetReply(id=entry_id, versions=0)


@dataclass(frozen=True, slots=True)
class IngestTarget:
    """The collection, the namespace and the labels of the entries."""

    collection: str
    namespace: str
    labels: Labels


@dataclass(slots=True)
class _FileInFlight:
    """One file being delivered. It is finished when every part has its outcome."""

    candidate: FileCandidate
    verdict: FileVerdict
    size: int
    parts: int
    settled: int = 0
    problem: AgentctxError | None = None
    redacted: set[str] = field(default_factory=set)


class Delivery:
    """Carries out a plan. `report` says what was done, even after an interruption."""

    def __init__(
        self,
        memory: DeliveryClient,
        target: IngestTarget,
        report: Report,
        progress: IngestProgress,
        *,
        stop: Event,
        max_bytes: int,
    ) -> None:
        self._memory = memory
        self._target = target
        self._report = report
        self._progress = progress
        self._stop = stop
        self._max_bytes = max_bytes
        self._in_flight: deque[_FileInFlight] = deque()
        """The file of each sent part whose outcome is still pending, in sending order."""

    def run(self, candidates: Iterable[FileCandidate]) -> None:
        """Save the files one after another, in batches.

        Raises:
            DaemonUnreachable: the daemon went away. Acknowledged files count as unchanged next time.
            StorageFailed, Unavailable: the daemon accepts nothing at the moment.
        """
        for outcome in self._memory.save_all(self._requests(candidates)):
            self._settle(self._in_flight.popleft(), outcome)

    def _requests(self, candidates: Iterable[FileCandidate]) -> Iterator[SaveRequest]:
        for candidate in candidates:
            if self._stop.is_set():
                self._report.interrupted = True
                return
            self._progress.reading(candidate.source)
            try:
                yield from self._requests_of(candidate)
            except NotIngestible as refusal:
                self._skip_refused(candidate, refusal)
            except FileNotFoundError:
                self._skip_vanished(candidate)
            except OSError as error:
                self._report.fail(candidate.found.path, error_text(error))
                self._progress.done(candidate.found.size)

    def _requests_of(self, candidate: FileCandidate) -> Iterator[SaveRequest]:
        contents = read(candidate.found, self._max_bytes)
        extracted = extract(PurePath(candidate.found.path), contents.data)
        parts = split(extracted.text, extracted.unit, extracted.places)
        work = _FileInFlight(
            candidate, verdict_on(contents.digest, candidate.known), contents.size, len(parts)
        )
        for note in extracted.notes:
            self._report.remark(candidate.source, note)
        for number, part in enumerate(parts, 1):
            self._in_flight.append(work)
            record = FileRecord(
                digest=contents.digest,
                size=contents.size,
                modified=contents.modified,
                part=number,
                parts=len(parts),
                unit=extracted.unit,
                places=part.places,
            )
            yield self._request(candidate, part.content, record)

    def _request(self, candidate: FileCandidate, content: str, record: FileRecord) -> SaveRequest:
        labels = labels_for(self._target.labels, candidate.known)
        return SaveRequest(
            collection=self._target.collection,
            namespace=self._target.namespace,
            key=key_of(candidate.source, record.part),
            content=content,
            source=candidate.source,
            origin="document",
            tags=None if labels.tags is None else list(labels.tags),
            category=labels.category,
            agent=labels.agent,
            file=record,
        )

    def _settle(self, work: _FileInFlight, outcome: Outcome) -> None:
        if isinstance(outcome, StorageFailed | Unavailable):
            raise outcome
        work.settled += 1
        if isinstance(outcome, AgentctxError):
            work.problem = work.problem or outcome
        else:
            self._report.entries += 1
            work.redacted.update(outcome.redacted)
        if work.settled == work.parts:
            self._finish(work)

    def _finish(self, work: _FileInFlight) -> None:
        source = work.candidate.source
        if work.problem:
            self._report.fail(work.candidate.found.path, work.problem.message, work.problem.hint)
        else:
            self._forget_surplus(work)
            self._report.saved[work.verdict].append(source)
            self._report.bytes += work.size
        if work.redacted:
            self._report.remark(source, f"redacted before it was stored: {', '.join(sorted(work.redacted))}")
        self._progress.done(work.candidate.found.size)

    def _forget_surplus(self, work: _FileInFlight) -> None:
        known = work.candidate.known
        for number, held in known.parts.items() if known else ():
            if number > work.parts:
                with suppress(NotFound):
                    self._memory.forget(held.id)

    def _skip_refused(self, candidate: FileCandidate, refusal: NotIngestible) -> None:
        self._report.skip(candidate.found.path, refusal.message, refusal.hint)
        if candidate.known and refusal.refusal not in _TRANSIENT_REFUSALS:
            self._report.missing.append(missing_file(candidate.known, refusal.message))
        self._progress.done(candidate.found.size)

    def _skip_vanished(self, candidate: FileCandidate) -> None:
        if candidate.known:
            self._report.missing.append(missing_file(candidate.known, GONE))
        self._progress.done(candidate.found.size)


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a file. `modified` predates the read, so a file changed meanwhile is read again."""

    data: bytes
    digest: str
    size: int
    modified: int


def read(found: Found, max_bytes: int) -> Contents:
    """Read a file that the walk found; give up after the first bytes if they show that it is binary.

    Raises:
        NotIngestible: it is binary, has grown beyond `max_bytes`, or is no longer a regular file.
        OSError: it is gone, or cannot be read.
    """
    # The file may have been replaced since: do not block on a pipe or follow a link.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if found.is_named else os.O_NOFOLLOW)
    with open(os.open(found.path, flags), "rb") as stream:  # noqa: PTH123 - a descriptor
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotIngestible(ExtractRefusal.UNSUPPORTED, "not a regular file")
        data = stream.read(HEAD_BYTES)
        if is_surely_binary(PurePath(found.path), data):
            raise NotIngestible(ExtractRefusal.BINARY, "binary")
        data += stream.read(max_bytes + 1 - len(data))
    if len(data) > max_bytes:
        raise NotIngestible(ExtractRefusal.TOO_LARGE, f"larger than {max_bytes:,} bytes")
    return Contents(data, sha256(data).hexdigest(), len(data), status.st_mtime_ns)
