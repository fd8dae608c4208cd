"""`agentctx service …`: have systemd (on macOS launchd) run the daemon, for the machine or for one user."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from agentctx.cli.layout import columns
from agentctx.cli.options import AsJson
from agentctx.cli.output import print_note, show
from agentctx.config import paths
from agentctx.errors import AccessDenied, AgentctxError, Conflict, InvalidInput
from agentctx.host.installed_service import BOOTED, show_unit

if TYPE_CHECKING:
    from agentctx.host.unit_files import UnitFile

app = typer.Typer(no_args_is_help=True, help="Have systemd, or launchd on macOS, run the daemon.")

_LAUNCHD_JOB = f"gui/{os.getuid()}/agentctx"
_UNITS = ("agentctx.socket", "agentctx.service")
_NOT_HERE = "systemd does not run here; to run where it does:"
_ACTIONS = {"missing": "written", "current": "unchanged", "outdated": "updated", "edited": "replaced"}
"""By the state of a file, what an installation does to it."""
_SHOWN = ("ActiveState", "SubState", "UnitFileState", "StatusText", "MainPID", "NRestarts")

Command: TypeAlias = list[str]
ForUser: TypeAlias = Annotated[
    bool,
    typer.Option("--user", help="Your own service, with your data, instead of one for the whole machine."),
]
Root: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Write below this folder, as for an image, and run nothing. Not with --user."),
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be written and run; change nothing.")
]


@dataclass(frozen=True, slots=True)
class FileReport:
    """A file and its state, or what happens to it."""

    path: str
    state: str
    text: str | None = None
    """The content to write; only with `--dry-run`."""


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """What was done, or would be. If `ran` is false, `commands` were not run."""

    files: list[FileReport]
    commands: list[str] = field(default_factory=list)
    ran: bool = False


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The state of the service. `units`: what systemd reports for each; empty if it does not run."""

    installed: bool
    files: list[FileReport]
    units: dict[str, dict[str, str]]


@app.command()
def install(
    user: ForUser = False,
    network: Annotated[
        bool | None,
        typer.Option(
            "--network/--no-network",
            help="Whether it may reach the network. Default: unchanged; yes on first install.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace edited files too; each is kept as NAME.edited.")
    ] = False,
    root: Root = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Install the units and start the service. Run again after an update; edited files are kept."""
    from agentctx.client.transport import why_away
    from agentctx.host.unit_files import Program, check_visible, is_ours, no_network_path, read_unit

    if not user:
        check_visible(Program.current())
    files = _files(user=user, network=network, root=root)
    states = _states(files)
    edited = [str(file.path) for file in files if states[file.path] == "edited"]
    if edited and not (force or dry_run):
        raise Conflict(
            f"{', '.join(edited)} was edited by hand; nothing was changed.",
            hint="Keep changes in a drop-in (`systemctl edit agentctx.service`), or replace with --force.",
        )
    drop_in = no_network_path(root or Path("/"))
    reopens = network is True and not user and (found := read_unit(drop_in)) is not None and is_ours(found)
    is_new = all(state == "missing" for state in states.values())
    is_update = reopens or not (is_new or all(state == "current" for state in states.values()))
    is_taken = user and is_new and not why_away(paths.user_service_socket())
    commands = _install_commands(user=user, is_update=is_update, is_taken=is_taken)
    if not dry_run:
        for file in files:
            _write(file, states[file.path])
        if reopens:
            _remove(drop_in)
        if not user:
            _make_credentials(root or Path("/"))
    done = [
        FileReport(str(file.path), _ACTIONS[states[file.path]], file.marked if dry_run else None)
        for file in files
    ]
    if reopens:
        done.append(FileReport(str(drop_in), "removed"))
    runs = not dry_run and _has_systemd(root)
    for command in commands if runs else ():
        _run(command)
    _report(done, commands, ran=runs, dry_run=dry_run, as_json=as_json)
    if user and not dry_run:
        _note_for_user(is_taken=is_taken)


@app.command()
def uninstall(
    user: ForUser = False,
    root: Root = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Stop the service and remove its units. Data, configuration, keys and edited files are kept."""
    states = _states(_files(user=user, network=None if user else False, root=root))
    ours = [path for path, state in states.items() if state in {"current", "outdated"}]
    done = [
        FileReport(str(path), "left, edited" if state == "edited" else "removed")
        for path, state in states.items()
        if state != "missing"
    ]
    systemctl = _systemctl(user=user)
    disable, reload = [*systemctl, "disable", "--now", *_UNITS], [*systemctl, "daemon-reload"]
    commands = [["launchctl", "bootout", _LAUNCHD_JOB]] if user and paths.IS_MAC else [disable, reload]
    runs = not dry_run and _has_systemd(root)
    if ours and runs:
        _run(disable)
    if not dry_run:
        _remove(*ours)
    if ours and runs:
        _run(reload)
    _report(done, commands if ours else [], ran=runs, dry_run=dry_run, as_json=as_json)


@app.command()
def status(user: ForUser = False, root: Root = None, as_json: AsJson = False) -> None:
    """Show whether the service is installed, up to date and running. Exits 1 if it is not installed."""
    states = _states(_files(user=user, network=None, root=root))
    installed = all(state != "missing" for state in states.values())
    is_shown = installed and _has_systemd(root)
    units = {unit: _shown(unit, user=user) for unit in _UNITS if is_shown}
    report = ServiceStatus(installed, [FileReport(str(path), state) for path, state in states.items()], units)
    lines = columns([(each.state, each.path) for each in report.files])
    lines += [
        f"{unit}: {shown['ActiveState']}, {shown['UnitFileState']}. {shown['StatusText']}".rstrip()
        for unit, shown in units.items()
    ]
    show(
        report,
        lines,
        as_json,
        None if root or paths.IS_MAC or BOOTED.is_dir() else "systemd does not run here",
    )
    if not installed:
        raise typer.Exit(1)


def _files(*, user: bool, network: bool | None, root: Path | None) -> list[UnitFile]:
    from agentctx.host.unit_files import Program, no_network_path, system_files, user_files

    if user:
        if root is not None or network is not None:
            raise InvalidInput("--root and --network apply to the system-wide service only; drop --user.")
        return user_files(Program.current())
    base = root or Path("/")
    closed = no_network_path(base).exists() if network is None else not network
    return system_files(Program.current(), no_network=closed, root=base)


def _states(files: Sequence[UnitFile]) -> dict[Path, str]:
    from agentctx.host.unit_files import read_unit, state_of

    return {file.path: state_of(file, read_unit(file.path)) for file in files}


def _install_commands(*, user: bool, is_update: bool, is_taken: bool) -> list[Command]:
    """Return the commands. `is_taken`: a daemon listens already, so the new one waits for the next login."""
    if user and paths.IS_MAC:
        return [] if is_taken else [["launchctl", "bootstrap", f"gui/{os.getuid()}", str(paths.user_unit())]]
    systemctl = _systemctl(user=user)
    return [
        *([] if user else [["systemd-sysusers", "agentctx.conf"]]),
        *([] if user else [["systemd-tmpfiles", "--create", "agentctx.conf"]]),
        [*systemctl, "daemon-reload"],
        *([[*systemctl, "stop", *_UNITS]] if is_update else []),
        [*systemctl, "enable", *([] if is_taken else ["--now"]), *_UNITS],
    ]


def _note_for_user(*, is_taken: bool) -> None:
    if is_taken:
        print_note("a daemon is running already; this one starts at your next login")
    if paths.IS_MAC:
        print_note("made by launchd's manual, but never tried on a Mac: please tell us how it goes")
    else:
        print_note("it ends with your last session; `loginctl enable-linger` keeps it running")


def _systemctl(*, user: bool) -> Command:
    return ["systemctl", "--user"] if user else ["systemctl"]


def _has_systemd(root: Path | None) -> bool:
    """Return whether this machine's systemd is the one to use, not that of an image below `root`."""
    return root is None and BOOTED.is_dir()


def _report(
    files: list[FileReport], commands: list[Command], *, ran: bool, dry_run: bool, as_json: bool
) -> None:
    report = ServiceReport(files, [shlex.join(command) for command in commands], ran)
    show(report, _lines(report, dry_run=dry_run), as_json)


def _lines(report: ServiceReport, *, dry_run: bool) -> Iterator[str]:
    for each in report.files:
        if each.text is not None and each.state != "unchanged":
            yield f"--- {each.path}: would be {each.state}\n{each.text}"
    if not dry_run:
        yield from columns([(each.state, each.path) for each in report.files])
    if not report.files:
        yield "nothing is installed"
    if report.commands and not report.ran:
        yield "would run:" if dry_run else "run:" if paths.IS_MAC else _NOT_HERE
    yield from (f"{'ran ' if report.ran else '  '}{command}" for command in report.commands)


def _run(command: Command) -> None:
    done = subprocess.run(command, check=False)  # noqa: S603 - our own words, no shell
    if done.returncode:
        raise AgentctxError(
            f"`{shlex.join(command)}` failed with exit code {done.returncode}.",
            hint="`journalctl -u agentctx.service` may show why.",
        )


def _shown(unit: str, *, user: bool) -> dict[str, str]:
    return show_unit(unit, _SHOWN, _systemctl(user=user))


def _write(file: UnitFile, state: str) -> None:
    if state == "current":
        return
    with _as_root(file.path):
        file.path.parent.mkdir(parents=True, exist_ok=True)
        if state == "edited":
            file.path.replace(file.path.with_name(f"{file.path.name}.edited"))
        new = file.path.with_name(f"{file.path.name}.new")
        new.write_text(file.marked, "utf-8")
        new.chmod(0o644)
        new.replace(file.path)


def _make_credentials(root: Path) -> None:
    from agentctx.host.unit_files import CREDENTIALS

    folder = root / CREDENTIALS
    with _as_root(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def _remove(*paths: Path) -> None:
    for path in paths:
        with _as_root(path):
            path.unlink(missing_ok=True)


@contextmanager
def _as_root(path: Path) -> Iterator[None]:
    """Turn a denied write into an error that says what to do about it."""
    try:
        yield
    except PermissionError as error:
        raise AccessDenied(
            f"You may not write {path}.", hint="Run it as root, with sudo, or use --user."
        ) from error
