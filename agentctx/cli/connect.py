"""`agentctx connect`: add the memory to the settings of agents, and remove it again."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from agentctx.agents.connect.agents import AGENTS, AgentPaths, Launch, edits_of, has_hooks
from agentctx.agents.connect.changes import FileChange, connect_change, disconnect_change
from agentctx.agents.connect.connected_files import ConnectedFiles, connections_path
from agentctx.agents.connect.exchange import ExchangeFailed, exchange
from agentctx.agents.connect.files import content, real_path_of, remove_empty, replace
from agentctx.cli.consent import can_prompt, require_consent
from agentctx.cli.layout import columns
from agentctx.cli.options import AsJson, DryRun, Yes
from agentctx.cli.output import paint, print_error, print_json, print_line
from agentctx.client.transport import why_away
from agentctx.config import paths
from agentctx.errors import AgentctxError, ConfigInvalid, InvalidInput
from agentctx.wire import RememberMode

Tell: TypeAlias = Callable[[str], object]
"""Print a message to the user."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A settings file of an agent, and what happens to it."""

    path: str
    action: Literal["write", "remove"]
    diff: str


@dataclass(frozen=True, slots=True)
class ConnectReport:
    """What was done, or would be if `changed` is false. `next_steps`, by agent, are left to the user."""

    agents: list[str]
    files: list[ChangedFile]
    changed: bool
    next_steps: dict[str, str]


def connect(
    ctx: typer.Context,
    agents: Annotated[
        list[str] | None,
        typer.Argument(metavar="[AGENT]...", help="The agents. Default: all that are installed."),
    ] = None,
    undo: Annotated[
        bool,
        typer.Option(
            "--undo", help="Remove what was written, for the user or with --project for this folder."
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    project: Annotated[
        bool, typer.Option("--project", help="Use the settings of this folder's project: tools only.")
    ] = False,
    remember: Annotated[
        RememberMode | None,
        typer.Option(
            "--remember",
            help="Save informative turns, fixes of failed tools, and compaction summaries. Alone: auto. With "
            "review, they are in no answer until you keep them in `agentctx review`.",
        ),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show each change as a diff before asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give agents this memory: Claude Code, Codex, Gemini CLI, Copilot CLI, opencode, pi, Cursor, VS Code, …

    Shows which files change and asks first. A second run changes nothing; --undo restores every file.
    """
    if as_json and not (yes or dry_run):
        raise InvalidInput(
            "With --json, there is no prompt for confirmation.", hint="Add --yes or --dry-run."
        )
    tell: Tell = (lambda _: None) if as_json else print_line
    places = AgentPaths(Path.home(), os.environ, sys.platform == "darwin", Path.cwd() if project else None)
    ledger = ConnectedFiles(connections_path(places.env))
    names = _named(agents, places, ledger, undo=undo)
    socket = str((ctx.obj or paths.find_socket()).absolute())
    launch = Launch(_program(), socket, remember)
    failed: list[str] = []
    changes: list[FileChange] = []
    for name in names:
        try:
            changes += (
                _plan_undo(name, ledger, places.project, tell)
                if undo
                else _plan_changes(name, places, launch, ledger, tell)
            )
        except (AgentctxError, OSError) as error:
            known = error if isinstance(error, AgentctxError) else ConfigInvalid(str(error))
            print_error(known, as_json=as_json)
            failed.append(name)
    if changes:
        _show_plan(changes, ledger, places.home, tell)
        if not undo and (away := why_away(Path(socket))):
            tell(f"{paint('note', 'yellow')}  {away}\n      Until one runs, agents get nothing.")
    _apply_changes(changes, ledger, tell, dry_run=dry_run, yes=yes, diff=diff or not can_prompt())
    done = [name for name in names if name not in failed]
    failures = len(failed)
    if done and not (undo or dry_run):
        changed = {change.written.agent for change in changes if change.written is not None}
        _print_next_steps([name for name in done if name in changed], tell)
        if changed and not as_json:
            _offer_start(Path(socket), tell, asks=not yes and can_prompt())
        failures += _checked(launch, tell)
        _offer_past(ctx, tell, asks=not (yes or failures) and can_prompt())
    if undo and changes and not dry_run and paths.user_unit().exists():
        tell("The daemon still starts at login; `agentctx service uninstall --user` ends that.")
    if as_json:
        print_json(_report(done, changes, changed=not dry_run))
    raise typer.Exit(1 if failures else 0)


def _report(names: Sequence[str], changes: Sequence[FileChange], *, changed: bool) -> ConnectReport:
    files = [
        ChangedFile(str(each.path), "remove" if each.after is None else "write", each.diff())
        for each in changes
    ]
    steps = {name: AGENTS[name].next_step for name in names if AGENTS[name].next_step}
    return ConnectReport(list(names), files, changed, steps)


def _named(
    agents: Sequence[str] | None, places: AgentPaths, ledger: ConnectedFiles, *, undo: bool
) -> list[str]:
    """Return the named agents, else those installed, or with `undo` those connected."""
    if unknown := [name for name in agents or [] if name not in AGENTS]:
        raise InvalidInput(f"Unknown agent {unknown[0]!r}.", hint=f"Use one of {', '.join(AGENTS)}.")
    names = list(agents or (ledger.agents(places.project) if undo else _installed(places)))
    if not names:
        if undo:
            raise InvalidInput("No agent is connected.", hint="`agentctx connect` connects them.")
        raise InvalidInput("No agent is installed here.", hint=f"Name one: {', '.join(AGENTS)}.")
    return names


def _installed(places: AgentPaths) -> list[str]:
    return [
        name
        for name, agent in AGENTS.items()
        if agent.folder(places).is_dir() or shutil.which(agent.program) is not None
    ]


def _plan_changes(
    name: str, places: AgentPaths, launch: Launch, ledger: ConnectedFiles, tell: Tell
) -> list[FileChange]:
    edits = edits_of(name, places, launch)
    if edits is None:
        raise InvalidInput(f"{AGENTS[name].title} has no settings for one project.", hint="Omit --project.")
    changes = []
    for file in edits:
        path = real_path_of(file.path, _roots(places))
        change = connect_change(
            path, name, content(path), ledger.of(path), file.edits, project=places.project
        )
        changes += [change] if change is not None else []
    if not changes:
        tell(f"{AGENTS[name].title}: already connected")
    return changes


def _plan_undo(name: str, ledger: ConnectedFiles, project: Path | None, tell: Tell) -> list[FileChange]:
    changes = []
    for path, known in ledger.files(name, project).items():
        real_path_of(path, [path])
        changes.append(disconnect_change(path, content(path), known))
    if not changes:
        tell(f"{AGENTS[name].title}: not connected")
    return changes


def _roots(places: AgentPaths) -> list[Path]:
    """Return the folders that may hold settings: the home, those named by the environment, the project."""
    given = [places.folder(variable, ".") for variable in ("CODEX_HOME", "CLAUDE_CONFIG_DIR")]
    return [places.home, places.config(), *given, *([places.project] if places.project else [])]


def _show_plan(changes: Sequence[FileChange], ledger: ConnectedFiles, home: Path, tell: Tell) -> None:
    """Print a table of the agents, what each gets or loses, and its files."""
    found = [(change.path, change.written or ledger.of(change.path)) for change in changes]
    records = [(path, record) for path, record in found if record is not None]
    with_hooks = {record.agent for path, record in records if has_hooks(path, record.edits)}
    rows, last = [("AGENT", "GETS" if any(change.written for change in changes) else "LOSES", "FILE")], ""
    for path, record in records:
        tools = "tools, hooks" if record.agent in with_hooks else "tools"
        named = ("", "") if record.agent == last else (AGENTS[record.agent].title, tools)
        rows.append((*named, str(path).replace(f"{home}/", "~/", 1)))
        last = record.agent
    head, *lines = columns(rows)
    tell("\n".join([paint(head, "dim"), *lines, ""]))


def _apply_changes(
    changes: Sequence[FileChange], ledger: ConnectedFiles, tell: Tell, *, dry_run: bool, yes: bool, diff: bool
) -> None:
    def show_diffs() -> None:
        for change in changes:
            tell(change.diff() or f"{change.path}: no change")

    if diff or dry_run or yes:
        show_diffs()
    if dry_run or not changes:
        return
    files = "this file" if len(changes) == 1 else f"these {len(changes)} files"
    question = f"Write {files}?" if any(change.written for change in changes) else f"Restore {files}?"
    require_consent(question, yes=yes, show_details=show_diffs)
    folders = [folder for change in changes if (known := ledger.of(change.path)) for folder in known.folders]
    for change in changes:
        _make(change, ledger)
        tell(f"{paint('removed' if change.after is None else 'wrote', 'green')}  {change.path}")
    if any(change.after is None for change in changes):
        remove_empty(folders)


def _make(change: FileChange, ledger: ConnectedFiles) -> None:
    if content(change.path) != change.before:
        raise ConfigInvalid(f"{change.path} was changed meanwhile.", hint="Run the command again.")
    written = change.written
    if written is not None:
        ledger.record(change.path, written)  # before the file: after a crash in between, undo still works
    if change.after is None:
        change.path.unlink(missing_ok=True)
    elif change.after != change.before:
        made = replace(change.path, change.after)
        if written is not None and made:
            ledger.record(change.path, written._replace(folders=tuple(made)))
    if written is None:
        ledger.record(change.path, None)


def _print_next_steps(names: Sequence[str], tell: Tell) -> None:
    for name in names:
        if AGENTS[name].next_step:
            tell(f"{paint('next', 'yellow')}  {AGENTS[name].title}: {AGENTS[name].next_step}")


def _offer_start(socket: Path, tell: Tell, *, asks: bool) -> None:
    """Offer to have the daemon started at login, or say how it starts here."""
    is_offered = paths.is_login_start_offered(socket)
    if is_offered and asks and typer.confirm("Start the daemon now and at every login?", err=True):
        from agentctx.cli.service import install

        install(user=True)
    elif is_offered:
        tell(f"{paint('next', 'yellow')}  Start the daemon at login: `{paths.INSTALL_SERVICE}`")
    elif not paths.can_start_at_login() and why_away(socket):
        start = f"nohup {paths.start_command(socket)} >/dev/null 2>&1 &"
        tell(f"{paint('next', 'yellow')}  Start the daemon in the background: `{start}`")


def _checked(launch: Launch, tell: Tell) -> int:
    """Exchange one question with the bridge, as an agent will; return the number of failures."""
    if not launch.remember:
        more = "To also keep what you tell your agents for later sessions: `agentctx connect --remember`"
        tell(f"{paint('next', 'yellow')}  {more}")
    try:
        exchange(launch.server("agentctx"))
    except ExchangeFailed as failure:
        print_error(ConfigInvalid(f"Connected, but: {failure}", hint="`agentctx doctor` shows details."))
        return 1
    tell(f"{paint('checked', 'green')}  the bridge and the daemon answer")
    return 0


def _offer_past(ctx: typer.Context, tell: Tell, *, asks: bool) -> None:
    """Say what past sessions and memories of other programs are here, and offer to import them."""
    from agentctx.cli.import_from import found

    memories = found()
    for each in memories:
        files = "1 file" if each.files == 1 else f"{each.files:,} files"
        look = f"agentctx import --from {each.kind} --dry-run"
        tell(f"{paint('found', 'green')}  {each.title}: {files} not imported yet. Look: `{look}`")
    if memories and asks and typer.confirm("Import all of this now?", err=True):
        from agentctx.cli.import_ import import_memory

        for each in memories:
            tell(f"{each.kind}:")
            try:
                import_memory(ctx, each.kind, from_other=True)
            except typer.Exit:  # it has said what failed
                continue
            except AgentctxError as error:
                print_error(error)


def _program() -> tuple[str, ...]:
    """Return the command that starts this program, with absolute paths."""
    started = Path(sys.argv[0])
    if started.name == "agentctx" and started.is_file() and os.access(started, os.X_OK):
        return (str(started.absolute()),)
    beside = Path(sys.executable).parent / "agentctx"
    return (str(beside),) if beside.is_file() else (sys.executable, "-P", "-m", "agentctx")
