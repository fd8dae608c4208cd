"""`agentctx ingest`: read files and folders into the memory and keep them in sync."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from agentctx.cli.connection import connect
from agentctx.cli.ingest_removal import KeepMissing, Removal, RemoveMissing, chosen_removal, confirm_removal
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
    Agent,
    AsJson,
    Namespace,
    Tags,
    complete_collection,
    complete_knowledge_category,
)
from agentctx.cli.output import print_line, print_note, writes_unicode
from agentctx.errors import AccessDenied, AgentctxError, InvalidInput

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.ingest.progress import IngestProgress
    from agentctx.ingest.report import Estimate, Report
    from agentctx.ingest.run import Task
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


Watch: TypeAlias = Annotated[
    bool,
    typer.Option("--watch", help="Keep running and follow changes: files that are removed are forgotten."),
]


def ingest(
    ctx: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", parser=_named_path, help="Files and folders.")
    ],
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
    remove_missing: RemoveMissing = False,
    keep_missing: KeepMissing = False,
    collection: Annotated[
        str,
        typer.Option(
            "--collection", "-c", autocompletion=complete_collection, help="Collection for the files."
        ),
    ] = "knowledge",
    namespace: Namespace,
    tag: Tags = None,
    category: Annotated[
        str | None,
        typer.Option(autocompletion=complete_knowledge_category, help="Category. Default: fact."),
    ] = None,
    agent: Agent = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen; change nothing.")
    ] = False,
    watch: Watch = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Embed without asking, whatever the cost.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return once everything can be found by meaning.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List every file that is skipped, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read files and folders into the memory; unchanged files are not read again.

    A hit names its file and lines. Ctrl-C stops after the current batch; run the same command to resume.
    """
    from agentctx.ingest.delivery import IngestTarget
    from agentctx.ingest.known import Labels
    from agentctx.ingest.progress import choose_progress
    from agentctx.ingest.run import Task, absolute, check
    from agentctx.ingest.walk import WalkSelection

    task = Task(
        roots=absolute(paths),
        selection=WalkSelection(
            hidden=hidden,
            ignore_files=not no_ignore,
            include=tuple(include or ()),
            exclude=tuple(exclude or ()),
            max_bytes=_bytes(max_size),
        ),
        target=IngestTarget(
            collection, namespace, Labels(tuple(dict.fromkeys(tag)) if tag else None, category, agent)
        ),
        dry_run=dry_run,
    )
    check(task)
    removal = chosen_removal(remove_missing, keep_missing, watch)
    if watch and (dry_run or wait):
        raise typer.BadParameter("cannot be combined with --dry-run or --wait", param_hint="--watch")
    with connect(ctx, timeout_s=TIMEOUT_S) as client:
        gate = CostGate(
            client,
            is_dry_run=dry_run,
            is_approved=yes,
            can_prompt=sys.stdin.isatty() and sys.stderr.isatty() and not as_json,
            quiet=quiet,
        )
        command = _Command(
            client,
            task,
            choose_progress(sys.stderr, quiet=quiet),
            removal,
            gate,
            as_json=as_json,
            verbose=verbose,
            announces=sys.stderr.isatty() and not quiet,
        )
        code = command.watch() if watch else command.once(wait=wait)
    raise typer.Exit(code)


class _Command:
    """One run of the command, with its output."""

    def __init__(
        self,
        client: Client,
        task: Task,
        progress: IngestProgress,
        removal: Removal,
        gate: CostGate,
        *,
        as_json: bool,
        verbose: bool,
        announces: bool,
    ) -> None:
        self._client = client
        self._task = task
        self._progress = progress
        self._removal = removal
        self._gate = gate
        self._as_json = as_json
        self._verbose = verbose
        self._announces = announces

    def once(self, *, wait: bool) -> int:
        """Run one pass, ask for consent where needed, show the report and return the exit code."""
        from agentctx.ingest.interrupt import stop_on_interrupt
        from agentctx.ingest.report import Report
        from agentctx.ingest.run import remove, run_pass, wait_until_embedded

        report = Report()
        dry_run_client = CountingClient()
        with _report_on_interrupt(report), stop_on_interrupt() as stop:
            run_pass(
                self._client,
                self._task,
                report,
                self._progress,
                stop,
                before_sending=lambda size: self._expect(size, report),
                dry_run_client=dry_run_client,
            )
        if dry_run_client.chunks and not report.interrupted:
            report.estimate = self._estimate(dry_run_client)
        if report.missing and not report.interrupted and self._may_remove(report):
            with _report_on_interrupt(report), stop_on_interrupt() as stop:
                remove(self._client, report, stop)
        if wait and not report.interrupted and not self._task.dry_run:
            with _report_on_interrupt(report), stop_on_interrupt() as stop:
                wait_until_embedded(self._client, report, self._progress, stop)
        self._show(report)
        if report.interrupted:
            print_note(f"interrupted; {_RESUME_HINT}")
            return EXIT_INTERRUPTED
        return 0 if report.is_clean else EXIT_FAILED

    def _expect(self, size: int, report: Report) -> None:
        """Announce how long a long run takes, then ask for consent to its cost."""
        if self._announces and not self._task.dry_run and size > SAMPLES * BYTES_PER_CHUNK:
            text = "agentctx " * (BYTES_PER_CHUNK // len("agentctx "))
            samples = [f"{number} {text}" for number in range(3)]
            provider = self._provider()
            if provider is not None and (line := long_run_line(size, self._pace(provider, samples))):
                print_note(line)
        self._gate.pass_with(size, report)

    def _estimate(self, dry_run_client: CountingClient) -> Estimate | None:
        provider = self._provider()
        if provider is None:
            return None
        return make_estimate(dry_run_client, provider, self._pace(provider, dry_run_client.samples))

    def _provider(self) -> ProviderStatus | None:
        """Return the provider's status, or None if the caller may not know it."""
        try:
            return self._client.status().provider
        except AccessDenied:
            return None

    def _pace(self, provider: ProviderStatus, samples: Sequence[str]) -> float | None:
        """Return the seconds per chunk, or None for an HTTP provider: the samples may have to stay here."""
        if provider.cost is not None or provider.state != "ok":
            return None
        return seconds_per_chunk(self._client, samples, self._task.target.namespace)

    def watch(self) -> int:
        """Run pass after pass until Ctrl-C."""
        from agentctx.ingest.interrupt import stop_on_interrupt
        from agentctx.ingest.watch import Watch, check_roots, file_events

        check_roots(self._task.roots)
        with suppress(AccessDenied):  # refusing access shows that it runs
            self._client.queue()  # a missing daemon is an error at the start; later it is waited for
        with stop_on_interrupt() as stop:
            follow = _PassRunner(self, stop)
            Watch(self._task.roots, follow, print_note, stop).run(file_events(self._task.roots, stop))
        return 0

    def follow(self, scopes: Sequence[str] | None, stop: Event, *, is_first: bool) -> None:
        """Run one pass of a watch."""
        from agentctx.ingest.report import Report
        from agentctx.ingest.run import remove, run_pass

        report = Report()

        def consent(size: int) -> None:
            # Later passes follow single files, unattended: the daily cap bounds them.
            if is_first:
                self._gate.pass_with(size, report)

        try:
            run_pass(
                self._client,
                self._task,
                report,
                self._progress,
                stop,
                scopes=scopes,
                before_sending=consent,
            )
            if self._removal is Removal.REMOVE:
                remove(self._client, report, stop)
        finally:
            if is_first:
                self._show(report)
            elif report.changes or report.failed:
                self._show_changes(report)
        if is_first:
            print_note("watching; press Ctrl-C to stop")

    def _may_remove(self, report: Report) -> bool:
        if self._task.dry_run or self._removal is Removal.KEEP:
            return False
        if self._removal is Removal.REMOVE:
            return True
        return not self._as_json and confirm_removal(report)

    def _show(self, report: Report) -> None:
        if self._as_json:
            _print_document(report, indent=2)
            return
        if report.dry_run:
            _print_lines(change_lines(report, with_skipped=self._verbose))
        _print_lines(summary_lines(report))
        if report.estimate:
            print_note("text is found by keyword as soon as it is saved, by meaning once it is embedded")
        print_notes(report, is_removal_left=self._removal is Removal.ASK)

    def _show_changes(self, report: Report) -> None:
        if self._as_json:
            _print_document(report, indent=None)
            return
        _print_lines(change_lines(report, with_skipped=False))
        print_notes(report, is_removal_left=False)


class _PassRunner:
    """The passes of a watch: the first shows a summary, later ones show the changes."""

    def __init__(self, command: _Command, stop: Event) -> None:
        self._command = command
        self._stop = stop
        self._is_first = True

    def __call__(self, scopes: Sequence[str] | None) -> None:
        is_first, self._is_first = self._is_first, False
        self._command.follow(scopes, self._stop, is_first=is_first)


def _bytes(size: str) -> int:
    from agentctx.ingest.walk import parse_size

    try:
        return parse_size(size)
    except InvalidInput as error:
        raise typer.BadParameter(f"{error.message} {error.hint}", param_hint="--max-size") from None


@contextmanager
def _report_on_interrupt(report: Report) -> Iterator[None]:
    """Before an error, note what was done until then."""
    try:
        yield
    except AgentctxError:
        if report.changes:
            print_note(f"{report.changes} files were done before that; {_RESUME_HINT}")
        raise


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print_line(line)


def _print_document(report: Report, *, indent: int | None) -> None:
    print_line(json.dumps(report.document(), ensure_ascii=not writes_unicode(), indent=indent))
