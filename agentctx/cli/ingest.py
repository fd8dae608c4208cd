"""`agentctx ingest`: read files and folders into the memory and keep them in sync."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from agentctx.cli.connection import connect
from agentctx.cli.consent import can_prompt
from agentctx.cli.ingest_report import (
    BYTES_PER_CHUNK,
    SAMPLES,
    CostGate,
    CountingClient,
    change_lines,
    long_run_line,
    make_estimate,
    print_notes,
    seconds_per_chunk,
    summary_lines,
)
from agentctx.cli.options import (
    KNOWLEDGE_CATEGORIES,
    Agent,
    AsJson,
    DryRun,
    Quiet,
    SavedNamespace,
    Tags,
    complete_collection,
)
from agentctx.cli.output import print_json, print_line, print_note
from agentctx.cli.save import note_namespace
from agentctx.cli.termination import stop_on_interrupt
from agentctx.errors import AccessDenied, AgentctxError, InvalidInput

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.ingest.delivery import IngestTask
    from agentctx.ingest.progress import IngestProgress
    from agentctx.ingest.report import Report
    from agentctx.ingest.unread import MissingPolicy
    from agentctx.wire import ProviderStatus

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
TIMEOUT_S = 120.0
"""Longer than for a query: a busy daemon needs time for a batch of large texts."""
_RESUME_HINT = "run the same command to resume"


def _named_path(text: str) -> Path:
    """Refuse an empty path: it would mean the working folder, but usually comes from an unset variable."""
    if not text:
        raise typer.BadParameter("the path is empty; give a file or folder, or . for the current one")
    return Path(text)


RemoveMissing: TypeAlias = Annotated[
    bool,
    typer.Option("--remove-missing", help="Erase what is gone or now excluded, instead of withdrawing it."),
]
KeepMissing: TypeAlias = Annotated[
    bool, typer.Option("--keep-missing", help="Leave it in the answers, marked stale.")
]
Watch: TypeAlias = Annotated[
    bool,
    typer.Option("--watch", help="Keep running and follow changes: what goes is withdrawn until it is back."),
]
Status: TypeAlias = Annotated[
    bool, typer.Option("--status", help="List the files that could not be seen or were withdrawn.")
]
ForgetWithdrawn: TypeAlias = Annotated[
    bool, typer.Option("--forget-withdrawn", help="Erase the entries of the withdrawn files.")
]


def ingest(
    ctx: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH", parser=_named_path, help="Files and folders.")
    ] = None,
    *,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB", help="Only files that match this pattern, as in .gitignore; repeat for more."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB", help="Exclude files and folders that match this pattern; repeat for more."
        ),
    ] = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Include names that begin with a dot.")] = False,
    no_ignore: Annotated[
        bool, typer.Option("--no-ignore", help="Include what .gitignore and .agentctxignore exclude.")
    ] = False,
    max_size: Annotated[str, typer.Option(metavar="SIZE", help="Skip files larger than this.")] = "10MB",
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Encoding of text files that are not UTF-8, such as cp1251. Reads all again."
        ),
    ] = None,
    remove_missing: RemoveMissing = False,
    keep_missing: KeepMissing = False,
    status: Status = False,
    forget_withdrawn: ForgetWithdrawn = False,
    collection: Annotated[
        str,
        typer.Option(
            "--collection", "-c", autocompletion=complete_collection, help="Collection for the files."
        ),
    ] = "knowledge",
    namespace: SavedNamespace,
    tag: Tags = None,
    category: Annotated[
        str | None,
        typer.Option(autocompletion=lambda: KNOWLEDGE_CATEGORIES, help="Category. Default: fact."),
    ] = None,
    agent: Agent = None,
    dry_run: DryRun = False,
    watch: Watch = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, neither about costs nor before erasing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return once everything can be found by meaning.")
    ] = False,
    quiet: Quiet = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List every file that is skipped, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read files and folders into the memory; unchanged files are not read again.

    Files that are gone or say something else leave the answers until they are back. A hit names its file and
    lines. Ctrl-C stops after the current batch; run the same command to resume.
    """
    from agentctx.cli import file_states as states
    from agentctx.ingest.delivery import IngestTarget, IngestTask
    from agentctx.ingest.extract import check_encoding
    from agentctx.ingest.known import Labels
    from agentctx.ingest.progress import choose_progress
    from agentctx.ingest.run import absolute, check
    from agentctx.ingest.walk import WalkSelection, parse_size

    if status and forget_withdrawn:
        raise typer.BadParameter("cannot be combined with --forget-withdrawn", param_hint="--status")
    if status or forget_withdrawn:
        with connect(ctx, timeout_s=TIMEOUT_S) as client:
            files = states.marked_files(client, absolute(paths or ()), namespace, collection)
            if forget_withdrawn:
                files = [each for each in files if each.state == "withdrawn"]
            states.print_marked(files, as_json=as_json)
            if forget_withdrawn and files and not dry_run:
                states.forget_withdrawn(client, files, yes=yes)
        return
    if not paths:
        raise typer.BadParameter("name a file or folder", param_hint="PATH")
    with _value_of("--max-size"):
        max_bytes = parse_size(max_size)
    with _value_of("--encoding"):
        check_encoding(encoding or "utf-8")
    task = IngestTask(
        roots=absolute(paths),
        selection=WalkSelection(
            hidden=hidden,
            ignore_files=not no_ignore,
            include=tuple(include or ()),
            exclude=tuple(exclude or ()),
            max_bytes=max_bytes,
        ),
        target=IngestTarget(
            collection, namespace, Labels(tuple(dict.fromkeys(tag)) if tag else None, category, agent)
        ),
        dry_run=dry_run,
        policy=chosen_policy(remove_missing, keep_missing),
        encoding=encoding,
    )
    check(task)
    if watch and (dry_run or wait):
        raise typer.BadParameter("cannot be combined with --dry-run or --wait", param_hint="--watch")
    with connect(ctx, timeout_s=TIMEOUT_S) as client:
        asks = can_prompt() and not as_json
        gate = CostGate(client=client, is_approved=yes or dry_run, can_prompt=asks, quiet=quiet)
        progress = choose_progress(sys.stderr, quiet=quiet)
        announces = sys.stderr.isatty() and not quiet
        command = _Command(client, task, progress, gate, as_json, verbose, announces)
        code = command.watch() if watch else command.once(wait=wait)
    raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class _Command:
    """One run of the command, with its output."""

    client: Client
    task: IngestTask
    progress: IngestProgress
    gate: CostGate
    as_json: bool
    verbose: bool
    announces: bool

    def once(self, *, wait: bool) -> int:
        """Run one pass, ask for consent where needed, show the report and return the exit code."""
        from agentctx.ingest.report import Report
        from agentctx.ingest.run import run_pass, wait_until_embedded

        report, counting = Report(), CountingClient()

        def expect(size: int) -> None:
            self._announce(size)
            self.gate.pass_with(size, report)

        with _stoppable(report) as stop:
            run_pass(
                self.client,
                self.task,
                report,
                self.progress,
                stop,
                before_sending=expect,
                dry_run_client=counting,
            )
        if counting.chunks and not report.interrupted and (provider := self._provider()) is not None:
            report.estimate = make_estimate(counting, provider, self._pace(provider, counting.samples))
        if wait and not report.interrupted and not self.task.dry_run:
            with _stoppable(report) as stop:
                wait_until_embedded(self.client, report, self.progress, stop)
        self._show(report)
        if report.interrupted:
            print_note(f"interrupted; {_RESUME_HINT}")
            return EXIT_INTERRUPTED
        return 0 if report.is_clean else EXIT_FAILED

    def watch(self) -> int:
        """Run pass after pass until Ctrl-C."""
        from agentctx.ingest.watch import Watch, check_roots, file_events

        check_roots(self.task.roots)
        with suppress(AccessDenied):  # refusing access shows that it runs
            self.client.queue()  # a missing daemon is an error at the start; later it is waited for
        is_first = True

        def follow(scopes: Sequence[str] | None) -> None:
            nonlocal is_first
            was_first, is_first = is_first, False
            self._follow(scopes, stop, is_first=was_first)

        with stop_on_interrupt() as stop:
            Watch(self.task.roots, follow, print_note, stop).run(
                file_events(self.task.roots, stop, print_note)
            )
        return 0

    def _follow(self, scopes: Sequence[str] | None, stop: Event, *, is_first: bool) -> None:
        """Run one pass of a watch: the first shows a summary, later ones show the changes."""
        from agentctx.ingest.report import Report
        from agentctx.ingest.run import run_pass

        report = Report()

        def consent(size: int) -> None:
            # Later passes follow single files, unattended: the daily cap bounds them.
            if is_first:
                self.gate.pass_with(size, report)

        try:
            run_pass(
                self.client, self.task, report, self.progress, stop, scopes=scopes, before_sending=consent
            )
        finally:
            if is_first:
                self._show(report)
            elif report.changes or report.failed:
                self._print(report, change_lines(report, with_skipped=False), indent=None)
        if is_first:
            print_note("watching; press Ctrl-C to stop")

    def _announce(self, size: int) -> None:
        if self.announces and not self.task.dry_run and size > SAMPLES * BYTES_PER_CHUNK:
            text = "agentctx " * (BYTES_PER_CHUNK // len("agentctx "))
            samples = [f"{number} {text}" for number in range(3)]
            provider = self._provider()
            if provider is not None and (line := long_run_line(size, self._pace(provider, samples))):
                print_note(line)

    def _provider(self) -> ProviderStatus | None:
        """Return the provider's status, or None if the caller may not know it."""
        try:
            return self.client.status().provider
        except AccessDenied:
            return None

    def _pace(self, provider: ProviderStatus, samples: Sequence[str]) -> float | None:
        """Return the seconds per chunk, or None for an HTTP provider: the samples may have to stay here."""
        if provider.cost is not None or provider.state != "ok":
            return None
        return seconds_per_chunk(self.client, samples, self.task.target.namespace)

    def _show(self, report: Report) -> None:
        changes = change_lines(report, with_skipped=self.verbose) if report.dry_run else []
        self._print(report, [*changes, *summary_lines(report)], indent=2)
        if not (self.as_json or report.dry_run):
            note_namespace(self.task.target.namespace)

    def _print(self, report: Report, lines: Sequence[str], *, indent: int | None) -> None:
        if self.as_json:
            print_json(report.document(), indent)
            return
        for line in lines:
            print_line(line)
        if report.estimate:
            print_note("text is found by keyword as soon as it is saved, by meaning once it is embedded")
        print_notes(report)


@contextmanager
def _value_of(option: str) -> Iterator[None]:
    """Convert an error about the value of an option into one of usage."""
    try:
        yield
    except InvalidInput as error:
        raise typer.BadParameter(f"{error.message} {error.hint}", param_hint=option) from None


@contextmanager
def _stoppable(report: Report) -> Iterator[Event]:
    """Yield an event that Ctrl-C sets; before an error, note what was done until then."""
    try:
        with stop_on_interrupt() as stop:
            yield stop
    except AgentctxError:
        if report.changes:
            print_note(f"{report.changes} files were done before that; {_RESUME_HINT}")
        raise


def chosen_policy(remove_missing: bool, keep_missing: bool) -> MissingPolicy:
    """Return what the options say. Raises `BadParameter` if they contradict each other."""
    from agentctx.ingest.unread import MissingPolicy

    if remove_missing and keep_missing:
        raise typer.BadParameter("cannot be combined with --keep-missing", param_hint="--remove-missing")
    if keep_missing:
        return MissingPolicy.KEEP
    return MissingPolicy.REMOVE if remove_missing else MissingPolicy.WITHDRAW
