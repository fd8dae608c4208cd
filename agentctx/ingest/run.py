"""One pass over the arguments: list what is known, look, plan, deliver."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol, Unpack

from agentctx.client.options import ListOptions
from agentctx.errors import AccessDenied, InvalidInput, NotFound
from agentctx.ingest.delivery import Delivery, DeliveryClient, IngestTarget, Outcome, Rehearsal
from agentctx.ingest.known import Place, list_known
from agentctx.ingest.names import is_within, spell
from agentctx.ingest.plan import IngestPlan, Missing, make_plan
from agentctx.ingest.progress import IngestProgress
from agentctx.ingest.report import Report
from agentctx.ingest.walk import Seen, Unreadable, WalkSelection, folder_identity, walk
from agentctx.wire import COLLECTIONS, EntryView, ForgetReply, QueueReply, SaveRequest, StatusReply

FILE_COLLECTION = "knowledge"
"""The only collection of those built in that takes files."""
LOOK_S = 0.5
"""How long one question to the daemon waits: so often the bar moves and Ctrl-C is heard."""


class IngestClient(Protocol):
    """The part of `Client` that a pass needs."""

    def iterate(self, **options: Unpack[ListOptions]) -> Iterator[EntryView]: ...

    def save_all(self, requests: Iterable[SaveRequest]) -> Iterator[Outcome]: ...

    def forget(self, entry_id: str) -> ForgetReply: ...


@dataclass(frozen=True, slots=True)
class Task:
    """What a person asked for. `roots` are absolute paths, as `absolute` makes them.

    It keeps which folders they are, so that no pass takes what replaced one for what was asked for.
    """

    roots: tuple[str, ...]
    selection: WalkSelection
    target: IngestTarget
    dry_run: bool = False
    identities: tuple[tuple[int, int] | None, ...] = field(init=False)
    """Of each root, as `folder_identity` gives them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identities", tuple(map(folder_identity, self.roots)))

    def check_folders(self) -> None:
        """Raises `InvalidInput` when a folder was removed or replaced since, or its disk unmounted."""
        for root, identity in zip(self.roots, self.identities, strict=True):
            if identity is not None and folder_identity(root) != identity:
                raise folder_changed(root)


def folder_changed(root: str) -> InvalidInput:
    """The error that ends what follows a folder: what is missing there may be on its unmounted disk."""
    return InvalidInput(
        f"{spell(root)} was removed or replaced. Its entries were kept.",
        hint="Run the command again when the folder is back.",
    )


def absolute(paths: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """The arguments as absolute paths without `..`, each once. Links stay what they are called."""
    return tuple(dict.fromkeys(os.path.abspath(path) for path in paths))  # noqa: PTH100 - resolve() follows links


def check(task: Task) -> None:
    """Raises `InvalidInput` for a task that the daemon would refuse file by file."""
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
    rehearsal: DeliveryClient | None = None,
) -> None:
    """Bring the memory in step with the arguments; `report` says what was done, also when this raises.

    With `scopes`, only those paths are looked at. Entries of missing files are not touched: `remove` does it.

    Raises:
        InvalidInput: a folder was removed or replaced meanwhile; nothing counts as missing then.
        AgentctxError: the daemon cannot be reached, or takes nothing at the moment.
    """
    report.roots = [spell(root) for root in task.roots]
    report.dry_run = task.dry_run
    try:
        plan = _look(memory, task, progress, stop, scopes)
    finally:
        progress.end()
    if plan is None:
        report.interrupted = True
        return
    task.check_folders()
    report.unchanged += plan.unchanged
    report.missing += plan.missing
    for left_out in plan.left_out:
        report.skip(left_out.path, left_out.reason)
    for unreadable in plan.unreadable:
        report.fail(unreadable.path, unreadable.problem)
    if before_sending is not None:
        before_sending(sum(candidate.found.size for candidate in plan.candidates))
    receiver = (rehearsal or Rehearsal()) if task.dry_run else memory
    _deliver(receiver, task, plan, report, progress, stop)
    try:
        task.check_folders()
    except InvalidInput:
        report.missing.clear()  # what was found, and not there any more when it was read, is among them
        raise


def remove(memory: IngestClient, report: Report, stop: Event) -> None:
    """Forget the entries of the missing files, and move them to `report.removed`."""
    while report.missing and not stop.is_set():
        missing = report.missing[0]
        for entry_id in missing.ids:
            with suppress(NotFound):
                memory.forget(entry_id)
        report.removed.append(report.missing.pop(0))
    report.interrupted = report.interrupted or bool(report.missing)


def _look(
    memory: IngestClient, task: Task, progress: IngestProgress, stop: Event, scopes: Sequence[str] | None
) -> IngestPlan | None:
    """The plan; None when it was interrupted: half a walk must not make files missing."""
    places = task.roots if scopes is None else scopes
    known = list_known(
        memory,
        # What was a file may be a folder now, so a scope is listed with its neighbours.
        [Place(spell(path), is_folder=scopes is None and os.path.isdir(path)) for path in places],  # noqa: PTH112
        namespace=task.target.namespace,
        collection=task.target.collection,
        listed=lambda count: progress.looking("listing what is known", count),
    )
    seen: list[Seen] = []
    for each in _seen(task, known, scopes):
        if stop.is_set():
            return None
        seen.append(each)
        progress.looking("looking at files", len(seen))
    return None if stop.is_set() else make_plan(seen, known, task.target.labels)


def _seen(task: Task, known: Collection[str], scopes: Sequence[str] | None) -> Iterator[Seen]:
    for root in task.roots:
        wanted = scopes and [scope for scope in scopes if is_within(scope, root)]
        if scopes is not None and not wanted:
            continue
        if _is_there(root):
            yield from walk(root, task.selection, wanted)
        elif not any(is_within(source, spell(root)) for source in known):
            yield Unreadable(root, "no such file or folder")


def _is_there(path: str) -> bool:
    """Whether the path leads somewhere, be it to where we may not look."""
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
    delivery = Delivery(
        memory,
        task.target,
        report,
        progress,
        stop=stop,
        max_bytes=task.selection.max_bytes,
    )
    total = sum(candidate.found.size for candidate in plan.candidates)
    progress.begin("ingesting", len(plan.candidates), total)
    try:
        delivery.run(plan.candidates)
    finally:
        progress.end()


def shown(missing: Sequence[Missing], most: int = 5) -> list[str]:
    """A few of them, a line each, and how many more there are."""
    lines = [f"{each.source} ({each.reason})" for each in missing[:most]]
    more = len(missing) - most
    return [*lines, f"and {more:,} more"] if more > 0 else lines


class Queues(Protocol):
    """The part of `Client` that is needed here."""

    def status(self) -> StatusReply: ...

    def queue(self) -> QueueReply: ...

    def drain(self, timeout_s: float = ...) -> QueueReply: ...


def wait_until_embedded(
    client: Queues, report: Report, progress: IngestProgress, stop: Event, *, look_s: float = LOOK_S
) -> None:
    """Wait for all pending embeddings of the daemon; the figures are in `report`.

    A daemon without an embedding provider is not waited for, nor one that does not let us see its queue.
    """
    try:
        provider, reply = client.status().provider, client.queue()
    except AccessDenied:
        return
    progress.begin("embedding", reply.pending)
    try:
        while reply.pending and provider.state != "off" and not stop.is_set():
            before = reply.pending
            reply = client.drain(look_s)
            progress.done(files=max(0, before - reply.pending))
    finally:
        progress.end()
        report.pending, report.buried = reply.pending, reply.buried
    report.interrupted = report.interrupted or (bool(reply.pending) and stop.is_set())
