"""One pass over the arguments: list the known files, walk the folders, plan, deliver."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from threading import Event
from typing import Protocol

from agentctx.errors import AccessDenied, InvalidInput, NotFound
from agentctx.ingest.delivery import NEVER, Delivery, DeliveryClient, DryRunClient, FileMarks, IngestTask
from agentctx.ingest.known import ListedPath, ListingClient, list_known
from agentctx.ingest.names import escape_path, is_within, unescape_path
from agentctx.ingest.plan import IngestPlan, judge, make_plan
from agentctx.ingest.progress import IngestProgress
from agentctx.ingest.report import Report
from agentctx.ingest.unread import CHANGING, NearestFolder, UnreadCause, UnreadFile
from agentctx.ingest.walk import UnreadablePath, WalkItem, walk
from agentctx.wire import COLLECTIONS, QueueReply, StatusReply

FILE_COLLECTION = "knowledge"
"""The only built-in collection that accepts files."""
POLL_S = 0.5
"""How long each drain request to the daemon waits, and so how often the bar moves and Ctrl-C is noticed."""


class IngestClient(ListingClient, DeliveryClient, Protocol):
    """The part of `Client` that a pass needs."""


def absolute(paths: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the arguments as absolute paths without `..` or duplicates. Links are not resolved."""
    return tuple(dict.fromkeys(os.path.abspath(path) for path in paths))  # noqa: PTH100 - resolve() follows links


def check(task: IngestTask) -> None:
    """Raise `InvalidInput` for a task that the daemon would refuse file by file."""
    target = task.target
    if target.collection in COLLECTIONS and target.collection != FILE_COLLECTION:
        raise InvalidInput(
            f"The collection {target.collection!r} does not accept files.",
            hint=f"Use {FILE_COLLECTION}, or a collection declared in the daemon's config.",
        )
    if target.collection != FILE_COLLECTION and target.labels.category is not None:
        raise InvalidInput(f"Entries of {target.collection!r} have no category.", hint="Use --tag instead.")


def run_pass(
    memory: IngestClient,
    task: IngestTask,
    report: Report,
    progress: IngestProgress,
    stop: Event,
    *,
    scopes: Sequence[str] | None = None,
    before_sending: Callable[[int], None] | None = None,
    dry_run_client: DeliveryClient | None = None,
) -> None:
    """Bring the memory in sync with the arguments. `report` says what was done, even if this raises.

    With `scopes`, only those paths are looked at.

    Raises:
        AgentctxError: the daemon cannot be reached, or accepts nothing at the moment.
    """
    report.roots = [escape_path(root) for root in task.roots]
    report.dry_run = task.dry_run
    receiver = (dry_run_client or DryRunClient()) if task.dry_run else memory
    ingest_pass = IngestPass(memory, receiver, task, report, progress, stop)
    unread = ingest_pass.run(scopes, before_sending=before_sending)
    if fresh := [each for each in unread if each.is_fresh]:
        ingest_pass.mark([replace(each, cause=UnreadCause.UNSEEN, reason=CHANGING) for each in fresh])
        if stop.wait(task.settle_s):
            report.interrupted = True
            return
        paths = [unescape_path(each.source) for each in fresh]
        unread = [each for each in unread if not each.is_fresh] + ingest_pass.run(paths, is_second=True)
    ingest_pass.settle(sorted(unread, key=lambda each: each.source))


@dataclass
class IngestPass:
    """Looks at the files of a task, sends what is new, and settles what became of the rest."""

    memory: IngestClient
    receiver: DeliveryClient
    task: IngestTask
    report: Report
    progress: IngestProgress
    stop: Event
    _marks: FileMarks = field(default_factory=FileMarks, init=False)

    def run(
        self,
        scopes: Sequence[str] | None,
        *,
        before_sending: Callable[[int], None] | None = None,
        is_second: bool = False,
    ) -> list[UnreadFile]:
        """Deliver the files there, and return the known ones without a text. A second look is the last."""
        try:
            plan = _plan(self.memory, self.task, self.progress, self.stop, scopes)
        finally:
            self.progress.end()
        if plan is None:
            self.report.interrupted = True
            return []
        self._take(plan, is_second=is_second)
        if before_sending is not None:
            before_sending(sum(candidate.file.size for candidate in plan.candidates))
        settles = not (is_second or self.task.dry_run)
        fresh_since = time.time_ns() - int(self.task.settle_s * 1e9) if settles else NEVER
        nearest, recorded = folder_lookup(), plan.recorded_folders
        folders = ((each, os.path.dirname(unescape_path(each.source))) for each in plan.absent)  # noqa: PTH120
        absent = [judge(each, nearest(at), recorded, fresh_since=fresh_since) for each, at in folders]
        return plan.unread + absent + self._deliver(plan, fresh_since)

    def settle(self, unread: Sequence[UnreadFile]) -> None:
        """Mark or remove the entries of the files without a text."""
        if self.report.interrupted:
            return
        policy = self.task.policy
        removable = [each for each in unread if each.is_removed(policy)]
        self.mark([each for each in unread if not each.is_removed(policy)])
        for file in removable:
            if self.stop.is_set():
                self.report.interrupted = True
                return
            for entry_id in file.ids:
                with suppress(NotFound):
                    self.receiver.forget(entry_id)
            self.report.removed.append(file)

    def mark(self, unread: Sequence[UnreadFile]) -> None:
        """Mark entries, and send all marks so far. What is fresh is not reported yet."""
        for file in unread:
            state = file.state(self.task.policy)
            is_new = any(
                (part.state, part.reason) != (state, file.reason) for part in file.known.parts.values()
            )
            if is_new:
                self._marks.add(file.ids, state, file.reason)
            if not file.is_fresh:
                listed = self.report.stale if state == "stale" else self.report.withdrawn
                listed.append(replace(file, is_new=is_new))
        self._marks.send(self.receiver, self.task.target.namespace)

    def _take(self, plan: IngestPlan, *, is_second: bool) -> None:
        report = self.report
        report.unchanged += len(plan.unchanged)
        for known in plan.unchanged:
            if marked := known.marked(known.first.parts):
                self._marks.add(marked, "present")
                report.returned.append(known.source)
        if is_second:
            return
        for excluded in plan.excluded:
            report.skip(excluded.path, excluded.reason)
        for unreadable in plan.unreadable:
            report.fail(unreadable.path, unreadable.problem)

    def _deliver(self, plan: IngestPlan, fresh_since: int) -> list[UnreadFile]:
        if not plan.candidates:
            return []
        delivery = Delivery(
            self.receiver, self.task, self.report, self.progress, self.stop, self._marks, fresh_since
        )
        size = sum(each.file.size for each in plan.candidates)
        self.progress.begin("ingesting", len(plan.candidates), size)
        try:
            delivery.run(plan.candidates)
        finally:
            self.progress.end()
        return delivery.unread


def folder_lookup() -> Callable[[str], NearestFolder | None]:
    """Return a function that looks for the nearest existing folder; None if it cannot be seen.

    It looks at each folder once: use it for one pass.
    """

    @cache
    def nearest(folder: str) -> NearestFolder | None:
        try:
            with os.scandir(folder) as listing:
                is_empty = next(listing, None) is None
            status = os.stat(folder)  # noqa: PTH116 - paths are text here
        except (FileNotFoundError, NotADirectoryError):
            above = os.path.dirname(folder)  # noqa: PTH120 - the same
            return None if above == folder else nearest(above)
        except OSError:
            return None
        identity = (status.st_dev, status.st_ino)
        return NearestFolder(escape_path(folder), identity, is_empty, status.st_mtime_ns)

    return nearest


def _plan(
    memory: IngestClient,
    task: IngestTask,
    progress: IngestProgress,
    stop: Event,
    scopes: Sequence[str] | None,
) -> IngestPlan | None:
    """Return the plan, or None if interrupted: an incomplete walk must not make files count as missing."""
    paths = task.roots if scopes is None else scopes
    known = list_known(
        memory,
        # A former file may now be a folder, so the listing of a scope includes its neighbours.
        [ListedPath(escape_path(path), is_folder=scopes is None and os.path.isdir(path)) for path in paths],  # noqa: PTH112
        namespace=task.target.namespace,
        collection=task.target.collection,
        listed=lambda count: progress.scanning("listing known files", count),
    )
    seen: list[WalkItem] = []
    for item in _seen(task, known, scopes):
        if stop.is_set():
            return None
        seen.append(item)
        progress.scanning("looking at files", len(seen))
    if stop.is_set():
        return None
    return make_plan(seen, known, task.target.labels, rereads=task.encoding is not None)


def _seen(task: IngestTask, known: Collection[str], scopes: Sequence[str] | None) -> Iterator[WalkItem]:
    for root in task.roots:
        root_scopes = scopes and [scope for scope in scopes if is_within(scope, root)]
        if scopes is not None and not root_scopes:
            continue
        if _exists(root):
            yield from walk(root, task.selection, root_scopes)
        elif not any(is_within(source, escape_path(root)) for source in known):
            yield UnreadablePath(root, "no such file or folder")


def _exists(path: str) -> bool:
    """Whether the path exists, even if we lack permission to access it."""
    try:
        os.stat(path)  # noqa: PTH116 - paths are text here, they may be undecodable
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


class QueueClient(Protocol):
    """The part of `Client` that waiting needs."""

    def status(self) -> StatusReply: ...

    def queue(self) -> QueueReply: ...

    def drain(self, timeout_s: float = ...) -> QueueReply: ...


def wait_until_embedded(client: QueueClient, report: Report, progress: IngestProgress, stop: Event) -> None:
    """Wait for all pending embeddings of the daemon, and put the counts into `report`.

    Do not wait if the daemon has no embedding provider or denies access to its queue.
    """
    try:
        provider, reply = client.status().provider, client.queue()
    except AccessDenied:
        return
    progress.begin("embedding", reply.pending)
    try:
        while reply.pending and provider.state != "off" and not stop.is_set():
            before = reply.pending
            reply = client.drain(POLL_S)
            progress.done(files=max(0, before - reply.pending))
    finally:
        progress.end()
        report.pending, report.buried = reply.pending, reply.buried
    report.interrupted = report.interrupted or (bool(reply.pending) and stop.is_set())
