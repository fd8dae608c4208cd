"""`agentctx service …`: have systemd (on macOS launchd) run the daemon, for the machine or for one user."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from agentctx.cli.layout import columns
from agentctx.cli.options import AsJson
from agentctx.cli.output import print_note, show
from agentctx.config import paths
from agentctx.daemon.host.installed_service import BOOTED, show_unit
from agentctx.errors import AccessDenied, AgentctxError, Conflict, InvalidInput

if TYPE_CHECKING:
    from agentctx.daemon.host.unit_files import UnitFile

app = typer.Typer(no_args_is_help=True, help="Have systemd, or launchd on macOS, run the daemon.")

_UNITS: Final = "agentctx.socket agentctx.service"
_ACTIONS: Final = {"missing": "written", "current": "unchanged", "outdated": "updated", "edited": "replaced"}
"""By the state of a file, what an installation does to it."""
_SHOWN: Final = ("ActiveState", "SubState", "UnitFileState", "StatusText", "MainPID", "NRestarts")

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
    commands: list[str]
    ran: bool


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
    from agentctx.daemon.host.unit_files import NO_NETWORK, Program, check_visible

    if not user:
        check_visible(Program.current())
    files = _files(user=user, network=network, root=root)
    actions = {file: _ACTIONS[file.state()] for file in files}
    edited = [str(file.path) for file, action in actions.items() if action == "replaced"]
    if edited and not (force or dry_run):
        raise Conflict(
            f"{', '.join(edited)} was edited by hand; nothing was changed.",
            hint="Keep changes in a drop-in (`systemctl edit agentctx.service`), or replace with --force.",
        )
    actions |= {file: "removed" for file in files if network and file.path.name == NO_NETWORK}
    done = set(actions.values())
    is_taken = user and done == {"written"} and not why_away(paths.user_service_socket())
    is_update = done not in ({"written"}, {"unchanged"})
    commands = _install_commands(user=user, is_update=is_update, is_taken=is_taken)
    runs = not dry_run and _has_systemd(root)
    if not dry_run:
        _change(actions)
    for command in commands if runs else ():
        _run(command)
    _report(actions, commands, ran=runs, dry_run=dry_run, as_json=as_json)
    if user and not dry_run:
        if is_taken:
            print_note("a daemon is running already; this one starts at your next login")
        if paths.IS_MAC:
            print_note("made by launchd's manual, but never tried on a Mac: please tell us how it goes")
        else:
            print_note("it ends with your last session; `loginctl enable-linger` keeps it running")


@app.command()
def uninstall(
    user: ForUser = False,
    root: Root = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Stop the service and remove its units. Data, configuration, keys and edited files are kept."""
    states = {file: file.state() for file in _files(user=user, network=None, root=root)}
    actions = {
        file: "left, edited" if state == "edited" else "removed"
        for file, state in states.items()
        if state != "missing"
    }
    is_ours, systemctl = "removed" in actions.values(), _systemctl(user)
    stop, reload = f"{systemctl} disable --now {_UNITS}", f"{systemctl} daemon-reload"
    commands = [f"launchctl bootout gui/{os.getuid()}/agentctx"] if user and paths.IS_MAC else [stop, reload]
    runs = not dry_run and _has_systemd(root)
    if is_ours and runs:
        _run(stop)
    if not dry_run:
        _change(actions)
    if is_ours and runs:
        _run(reload)
    _report(actions, commands if is_ours else [], ran=runs, dry_run=dry_run, as_json=as_json)


@app.command()
def status(user: ForUser = False, root: Root = None, as_json: AsJson = False) -> None:
    """Show whether the service is installed, up to date and running. Exits 1 if it is not installed."""
    files = [FileReport(str(each.path), each.state()) for each in _files(user=user, network=None, root=root)]
    installed = all(each.state != "missing" for each in files)
    asked = _UNITS.split() if installed and _has_systemd(root) else []
    units = {unit: show_unit(unit, _SHOWN, _systemctl(user).split()) for unit in asked}
    lines = columns([(each.state, each.path) for each in files])
    lines += [
        f"{unit}: {shown['ActiveState']}, {shown['UnitFileState']}. {shown['StatusText']}".rstrip()
        for unit, shown in units.items()
    ]
    is_away = not (root or paths.IS_MAC or BOOTED.is_dir())
    note = "systemd does not run here" if is_away else None
    show(ServiceStatus(installed, files, units), lines, as_json, note)
    if not installed:
        raise typer.Exit(1)


def _files(*, user: bool, network: bool | None, root: Path | None) -> list[UnitFile]:
    """Return the files of the service, with the drop-in against network access if it is wanted or there."""
    from agentctx.daemon.host.unit_files import Program, no_network_path, system_files, user_files

    if user:
        if root is not None or network is not None:
            raise InvalidInput("--root and --network apply to the system-wide service only; drop --user.")
        return user_files(Program.current())
    base = root or Path("/")
    no_network = network is False or no_network_path(base).exists()
    return system_files(Program.current(), no_network=no_network, root=base)


def _install_commands(*, user: bool, is_update: bool, is_taken: bool) -> list[str]:
    """Return the commands. `is_taken`: a daemon listens already, so the new one waits for the next login."""
    if user and paths.IS_MAC:
        load = f"launchctl bootstrap gui/{os.getuid()} {shlex.quote(str(paths.user_unit()))}"
        return [] if is_taken else [load]
    systemctl = _systemctl(user)
    return [
        *([] if user else ["systemd-sysusers agentctx.conf", "systemd-tmpfiles --create agentctx.conf"]),
        f"{systemctl} daemon-reload",
        *([f"{systemctl} stop {_UNITS}"] if is_update else []),
        f"{systemctl} enable {'' if is_taken else '--now '}{_UNITS}",
    ]


def _change(actions: Mapping[UnitFile, str]) -> None:
    """Write and remove the files, keeping edited ones under another name. Raises `AccessDenied`."""
    try:
        for file, action in actions.items():
            if action in {"unchanged", "left, edited"}:
                continue
            if file.state() == "edited":
                file.path.replace(file.path.with_name(f"{file.path.name}.edited"))
            if action == "removed":
                file.path.unlink(missing_ok=True)
                continue
            file.path.parent.mkdir(parents=True, exist_ok=True)
            new = file.path.with_name(f"{file.path.name}.new")
            new.write_text(file.text, "utf-8")
            new.chmod(0o644)
            new.replace(file.path)
    except PermissionError as error:
        raise AccessDenied(
            f"You may not write {error.filename}.", hint="Run it as root, with sudo, or use --user."
        ) from error


def _systemctl(user: bool) -> str:
    return "systemctl --user" if user else "systemctl"


def _has_systemd(root: Path | None) -> bool:
    """Return whether this machine's systemd is the one to use, not that of an image below `root`."""
    return root is None and BOOTED.is_dir()


def _run(command: str) -> None:
    done = subprocess.run(shlex.split(command), check=False)  # noqa: S603 - our own words, no shell
    if done.returncode:
        raise AgentctxError(
            f"`{command}` failed with exit code {done.returncode}.",
            hint="`journalctl -u agentctx.service` may show why.",
        )


def _report(
    actions: Mapping[UnitFile, str], commands: list[str], *, ran: bool, dry_run: bool, as_json: bool
) -> None:
    files = [
        FileReport(str(file.path), action, file.text if dry_run and action in _ACTIONS.values() else None)
        for file, action in actions.items()
    ]
    show(ServiceReport(files, commands, ran), _lines(files, commands, ran=ran, dry_run=dry_run), as_json)


def _lines(files: list[FileReport], commands: list[str], *, ran: bool, dry_run: bool) -> Iterator[str]:
    for file in files:
        if file.text is not None and file.state != "unchanged":
            yield f"--- {file.path}: would be {file.state}\n{file.text}"
    if not dry_run:
        yield from columns([(file.state, file.path) for file in files])
    if not files:
        yield "nothing is installed"
    if commands and not ran:
        away = "run:" if paths.IS_MAC else "systemd does not run here; to run where it does:"
        yield "would run:" if dry_run else away
    yield from (f"{'ran ' if ran else '  '}{command}" for command in commands)
