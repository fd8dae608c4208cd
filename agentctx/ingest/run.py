"""One pass over the arguments: list the known files, walk the folders, plan, deliver."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol

from agentctx.errors import AccessDenied, InvalidInput, NotFound
from agentctx.ingest.delivery import Delivery, DeliveryClient, DryRunClient, IngestTarget
from agentctx.ingest.known import ListingClient, Place, list_known
from agentctx.ingest.names import escape_path, is_within
from agentctx.ingest.plan import IngestPlan, make_plan
from agentctx.ingest.progress import IngestProgress
from agentctx.ingest.report import Report
from agentctx.ingest.walk import Unreadable, WalkItem, WalkSelection, check_unchanged, folder_identity, walk
from agentctx.wire import COLLECTIONS, QueueReply, StatusReply

FILE_COLLECTION = "knowledge"
"""The only built-in collection that accepts files."""
POLL_S = 0.5
"""How long each drain request to the daemon waits, and so how often the bar moves and Ctrl-C is noticed."""


class IngestClient(ListingClient, DeliveryClient, Protocol):
    """The part of `Client` that a pass needs."""


@dataclass(frozen=True, slots=True)
class Task:
    """The user's request. `roots` are absolute paths, as returned by `absolute`.

    The task remembers the identity of each folder, so that no pass mistakes a replacement for it.
    """

    roots: tuple[str, ...]
    selection: WalkSelection
    target: IngestTarget
    dry_run: bool = False
    identities: tuple[tuple[int, int] | None, ...] = field(init=False)
    """The `folder_identity` of each root."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identities", tuple(map(folder_identity, self.roots)))


def absolute(paths: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the arguments as absolute paths without `..` or duplicates. Links are not resolved."""
    return tuple(dict.fromkeys(os.path.abspath(path) for path in paths))  # noqa: PTH100 - resolve() follows links


def check(task: Task) -> None:
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
    task: Task,
    report: Report,
    progress: IngestProgress,
    stop: Event,
    *,
    scopes: Sequence[str] | None = None,
    before_sending: Callable[[int], None] | None = None,
    dry_run_client: DeliveryClient | None = None,
) -> None:
    """Bring the memory in sync with the arguments. `report` says what was done, even if this raises.

    With `scopes`, only those paths are looked at. Entries of missing files stay; `remove` forgets them.

    Raises:
        InvalidInput: a folder was removed or replaced meanwhile; in that case nothing counts as missing.
        AgentctxError: the daemon cannot be reached, or accepts nothing at the moment.
    """
    report.roots = [escape_path(root) for root in task.roots]
    report.dry_run = task.dry_run
    try:
        plan = _plan(memory, task, progress, stop, scopes)
    finally:
        progress.end()
    if plan is None:
        report.interrupted = True
        return
    check_unchanged(task.roots, task.identities)
    report.unchanged += plan.unchanged
    report.missing += plan.missing
    for excluded in plan.excluded:
        report.skip(excluded.path, excluded.reason)
    for unreadable in plan.unreadable:
        report.fail(unreadable.path, unreadable.problem)
    if before_sending is not None:
        before_sending(sum(candidate.found.size for candidate in plan.candidates))
    receiver = (dry_run_client or DryRunClient()) if task.dry_run else memory
    _deliver(receiver, task, plan, report, progress, stop)
    try:
        check_unchanged(task.roots, task.identities)
    except InvalidInput:
        report.missing.clear()  # includes files that were found but had vanished when they were read
        raise


def remove(memory: IngestClient, report: Report, stop: Event) -> None:
    """Forget the entries of the missing files, and move the files to `report.removed`."""
    while report.missing and not stop.is_set():
        missing = report.missing[0]
        for entry_id in missing.ids:
            with suppress(NotFound):
                memory.forget(entry_id)
        report.removed.append(report.missing.pop(0))
    report.interrupted = report.interrupted or bool(report.missing)


def _plan(
    memory: IngestClient, task: Task, progress: IngestProgress, stop: Event, scopes: Sequence[str] | None
) -> IngestPlan | None:
    """Return the plan, or None if interrupted: an incomplete walk must not make files count as missing."""
    places = task.roots if scopes is None else scopes
    known = list_known(
        memory,
        # A former file may now be a folder, so the listing of a scope includes its neighbours.
        [Place(escape_path(path), is_folder=scopes is None and os.path.isdir(path)) for path in places],  # noqa: PTH112
        namespace=task.target.namespace,
        collection=task.target.collection,
        listed=lambda count: progress.scanning("listing known files", count),
    )
    seen: list[WalkItem] = []
    for each in _seen(task, known, scopes):
        if stop.is_set():
            return None
        seen.append(each)
        progress.scanning("looking at files", len(seen))
    return None if stop.is_set() else make_plan(seen, known, task.target.labels)


def _seen(task: Task, known: Collection[str], scopes: Sequence[str] | None) -> Iterator[WalkItem]:
    for root in task.roots:
        wanted = scopes and [scope for scope in scopes if is_within(scope, root)]
        if scopes is not None and not wanted:
            continue
        if _exists(root):
            yield from walk(root, task.selection, wanted)
        elif not any(is_within(source, escape_path(root)) for source in known):
            yield Unreadable(root, "no such file or folder")


def _exists(path: str) -> bool:
    """Whether the path exists, even if we lack permission to access it."""
    try:
        os.stat(path)  # noqa: PTH116 - paths are text here, they may be undecodable
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _deliver(
    memory: DeliveryClient,
    task: Task,
    plan: IngestPlan,
    report: Report,
    progress: IngestProgress,
    stop: Event,
) -> None:
    if not plan.candidates:
        return
    limit = task.selection.max_bytes
    delivery = Delivery(memory, task.target, report, progress, stop=stop, max_bytes=limit)
    progress.begin("ingesting", len(plan.candidates), sum(each.found.size for each in plan.candidates))
    try:
        delivery.run(plan.candidates)
    finally:
        progress.end()


class QueueClient(Protocol):
    """The part of `Client` that waiting needs."""

    def status(self) -> StatusReply: ...

    def queue(self) -> QueueReply: ...

    def drain(self, timeout_s: float = ...) -> QueueReply: ...


def wait_until_embedded(
    client: QueueClient, report: Report, progress: IngestProgress, stop: Event, *, poll_s: float = POLL_S
) -> None:
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
            reply = client.drain(poll_s)
            progress.done(files=max(0, before - reply.pending))
    finally:
        progress.end()
        report.pending, report.buried = reply.pending, reply.buried
    report.interrupted = report.interrupted or (bool(reply.pending) and stop.is_set())
