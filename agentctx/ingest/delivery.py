"""Reads the files of a plan one at a time, sends their parts, and counts the daemon's replies."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePath
from threading import Event
from typing import Literal, Protocol, TypeAlias

from agentctx.errors import AgentctxError, NotFound, StorageFailed, Unavailable
from agentctx.ingest.extract import ExtractRefusal, NotIngestible, extract, is_surely_binary
from agentctx.ingest.known import Labels
from agentctx.ingest.names import key_of
from agentctx.ingest.parts import split
from agentctx.ingest.plan import FileCandidate, FileVerdict, labels_for, unread_file, verdict_on
from agentctx.ingest.progress import IngestProgress
from agentctx.ingest.report import Report
from agentctx.ingest.unread import CHANGING, MissingPolicy, UnreadCause, UnreadFile
from agentctx.ingest.walk import FoundFile, WalkSelection, error_text
from agentctx.wire import (
    MAX_MARKED,
    FileMark,
    FileRecord,
    ForgetReply,
    MarkFilesReply,
    SaveRequest,
    SaveResult,
)

Outcome: TypeAlias = SaveResult | AgentctxError
State: TypeAlias = Literal["present", "stale", "withdrawn"]

_TRANSIENT_REFUSALS = frozenset({ExtractRefusal.NEEDS_EXTRA, ExtractRefusal.TOO_SLOW})
"""Refusals that say nothing about the text, so the file's entries stay in the answers."""
SHORTER = "the file is shorter now"
HEAD_BYTES = 8_192
SETTLE_S = 2.0
"""Longer than an editor takes between truncating or removing a file and writing it."""
NEVER = 2**63
"""Later than every time of a file, in nanoseconds."""


class DeliveryClient(Protocol):
    """The part of `Client` that a delivery needs."""

    def save_all(self, requests: Iterable[SaveRequest]) -> Iterator[Outcome]: ...

    def forget(self, entry_id: str) -> ForgetReply: ...

    def mark_files(self, namespace: str, marks: Sequence[FileMark]) -> MarkFilesReply: ...


class DryRunClient:
    """A memory for `--dry-run` that accepts everything and keeps nothing."""

    def save_all(self, requests: Iterable[SaveRequest]) -> Iterator[Outcome]:
        return (SaveResult(id="", version=0, changed=True) for _ in requests)

    def forget(self, entry_id: str) -> ForgetReply:
        return ForgetReply(id=entry_id, versions=0)

    def mark_files(self, namespace: str, marks: Sequence[FileMark]) -> MarkFilesReply:  # noqa: ARG002
        return MarkFilesReply(entries=0)


@dataclass(frozen=True, slots=True)
class IngestTarget:
    """The collection, the namespace and the labels of the entries."""

    collection: str
    namespace: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class IngestTask:
    """The user's request. `roots` are absolute paths, as returned by `run.absolute`."""

    roots: tuple[str, ...]
    selection: WalkSelection
    target: IngestTarget
    dry_run: bool = False
    policy: MissingPolicy = MissingPolicy.WITHDRAW
    encoding: str | None = None
    """The encoding of text files; None: it is detected."""
    settle_s: float = SETTLE_S
    """How long a file that is gone or empty may be in the middle of an editor's save."""


class FileMarks:
    """Collects what one pass found about the files of entries, and sends it to the daemon."""

    def __init__(self) -> None:
        self._ids: dict[tuple[State, str], list[str]] = {}

    def add(self, ids: Sequence[str], state: State, reason: str = "") -> None:
        self._ids.setdefault((state, reason), []).extend(ids)

    def send(self, client: DeliveryClient, namespace: str) -> None:
        """Send all marks, and forget them. Raises `AgentctxError`."""
        for (state, reason), ids in self._ids.items():
            for start in range(0, len(ids), MAX_MARKED):
                batch = ids[start : start + MAX_MARKED]
                client.mark_files(namespace, [FileMark(entries=batch, state=state, reason=reason)])
        self._ids.clear()


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


@dataclass
class Delivery:
    """Carries out a plan. `report` says what was done, even after an interruption.

    `marks` gets what was found about entries that exist, and `unread` the known files without a text. Files
    changed after `fresh_since` (nanoseconds) may be in the middle of an editor's save.
    """

    memory: DeliveryClient
    task: IngestTask
    report: Report
    progress: IngestProgress
    stop: Event
    marks: FileMarks
    fresh_since: int
    unread: list[UnreadFile] = field(default_factory=list, init=False)
    _in_flight: deque[_FileInFlight] = field(default_factory=deque, init=False)
    """The file of each sent part whose outcome is still pending, in sending order."""

    def run(self, candidates: Iterable[FileCandidate]) -> None:
        """Save the files one after another, in batches.

        Raises:
            DaemonUnreachable: the daemon went away. Acknowledged files count as unchanged next time.
            StorageFailed, Unavailable: the daemon accepts nothing at the moment.
        """
        for outcome in self.memory.save_all(self._requests(candidates)):
            self._settle(self._in_flight.popleft(), outcome)

    def _requests(self, candidates: Iterable[FileCandidate]) -> Iterator[SaveRequest]:
        for candidate in candidates:
            if self.stop.is_set():
                self.report.interrupted = True
                return
            self.progress.reading(candidate.source)
            try:
                yield from self._requests_of(candidate)
            except NotIngestible as refusal:
                self._skip_refused(candidate, refusal)
            except FileNotFoundError:
                self._note_unread(candidate, UnreadCause.UNSEEN, CHANGING, is_fresh=self.fresh_since < NEVER)
            except OSError as error:
                self._fail(candidate, error_text(error))
            except Exception as error:  # noqa: BLE001 - one file must not end the run, or the watch
                self._fail(candidate, f"{type(error).__name__}: {error}"[:200])

    def _requests_of(self, candidate: FileCandidate) -> Iterator[SaveRequest]:
        contents = read(candidate.file, self.task.selection.max_bytes, is_text=self.task.encoding is not None)
        extracted = extract(PurePath(candidate.file.path), contents.data, encoding=self.task.encoding)
        parts = split(extracted.text, extracted.unit, extracted.places)
        work = _FileInFlight(
            candidate, verdict_on(contents.digest, candidate.known), contents.size, len(parts)
        )
        for note in extracted.notes:
            self.report.remark(candidate.source, note)
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
                device=candidate.file.folder[0] if candidate.file.folder else None,
                folder=candidate.file.folder[1] if candidate.file.folder else None,
            )
            yield self._request(candidate, part.content, record)

    def _request(self, candidate: FileCandidate, content: str, record: FileRecord) -> SaveRequest:
        known = candidate.known
        labels = labels_for(self.task.target.labels, known)
        is_new_part = known is not None and record.part not in known.parts
        return SaveRequest(
            collection=self.task.target.collection,
            namespace=self.task.target.namespace,
            key=key_of(candidate.source, record.part),
            content=content,
            source=candidate.source,
            origin="document",
            tags=None if labels.tags is None else list(labels.tags),
            category=labels.category,
            agent=labels.agent,
            file=record,
            # A new part of a revoked file comes from the others, which keeps it out of the answers.
            derived_from=[known.first.id] if known and is_new_part and known.first.is_revoked else None,
        )

    def _settle(self, work: _FileInFlight, outcome: Outcome) -> None:
        if isinstance(outcome, StorageFailed | Unavailable):
            raise outcome
        work.settled += 1
        if isinstance(outcome, AgentctxError):
            work.problem = work.problem or outcome
        else:
            self.report.entries += 1
            work.redacted.update(outcome.redacted)
        if work.settled == work.parts:
            self._finish(work)

    def _finish(self, work: _FileInFlight) -> None:
        source = work.candidate.source
        if work.problem:
            self.report.fail(work.candidate.file.path, work.problem.message, work.problem.hint)
        else:
            known = work.candidate.known
            if known and (marked := known.marked(work.parts)):
                self.marks.add(marked, "present")
                self.report.returned.append(known.source)
            self._withdraw_surplus(work)
            self.report.saved[work.verdict].append(source)
            self.report.bytes += work.size
        if work.redacted:
            self.report.remark(source, f"redacted before it was stored: {', '.join(sorted(work.redacted))}")
        self.progress.done(work.candidate.file.size)

    def _withdraw_surplus(self, work: _FileInFlight) -> None:
        known = work.candidate.known
        surplus = [part for number, part in known.parts.items() if number > work.parts] if known else []
        if self.task.policy is not MissingPolicy.REMOVE:
            left = [part.id for part in surplus if part.state != "withdrawn"]
            self.marks.add(left, "withdrawn", SHORTER)
            return
        for part in surplus:
            with suppress(NotFound):
                self.memory.forget(part.id)

    def _fail(self, candidate: FileCandidate, problem: str) -> None:
        self.report.fail(candidate.file.path, problem)
        self._note_unread(candidate, UnreadCause.UNSEEN, problem)

    def _skip_refused(self, candidate: FileCandidate, refusal: NotIngestible) -> None:
        says_nothing = refusal.refusal in _TRANSIENT_REFUSALS
        cause = UnreadCause.UNSEEN if says_nothing else UnreadCause.UNUSABLE
        changed = not says_nothing and candidate.file.modified > self.fresh_since
        noted = self._note_unread(candidate, cause, refusal.message, is_fresh=changed)
        if noted is None or not noted.is_fresh:
            self.report.skip(candidate.file.path, refusal.message, refusal.hint)

    def _note_unread(
        self, candidate: FileCandidate, cause: UnreadCause, reason: str, *, is_fresh: bool = False
    ) -> UnreadFile | None:
        self.progress.done(candidate.file.size)
        if candidate.known is None:
            return None
        self.unread.append(unread_file(candidate.known, cause, reason, is_fresh=is_fresh))
        return self.unread[-1]


@dataclass(frozen=True, slots=True)
class FileContents:
    """The contents of a file. `modified` predates the read, so a file changed meanwhile is read again."""

    data: bytes
    digest: str
    size: int
    modified: int


def read(file: FoundFile, max_bytes: int, *, is_text: bool = False) -> FileContents:
    """Read a file that the walk found; unless `is_text`, give up if the first bytes show that it is binary.

    Raises:
        NotIngestible: it is binary, has grown beyond `max_bytes`, or is no longer a regular file.
        OSError: it is gone, or cannot be read.
    """
    # The file may have been replaced since: do not block on a pipe or follow a link.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if file.is_named else os.O_NOFOLLOW)
    with open(os.open(file.path, flags), "rb") as stream:  # noqa: PTH123 - a descriptor
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotIngestible(ExtractRefusal.UNSUPPORTED, "not a regular file")
        data = stream.read(HEAD_BYTES)
        if not is_text and is_surely_binary(PurePath(file.path), data):
            raise NotIngestible(ExtractRefusal.BINARY, "binary")
        data += stream.read(max_bytes + 1 - len(data))
    if len(data) > max_bytes:
        raise NotIngestible(ExtractRefusal.TOO_LARGE, f"larger than {max_bytes:,} bytes")
    return FileContents(data, sha256(data).hexdigest(), len(data), status.st_mtime_ns)
