"""`agentctx access …`: who else may use the memory. It edits the config file; the daemon need not run."""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from agentctx.cli.options import AsJson, ConfigFile, DryRun
from agentctx.cli.output import print_note, show, table
from agentctx.config.bounded_files import read_bounded
from agentctx.config.paths import SYSTEM_CONFIG, config_candidates
from agentctx.errors import ConfigInvalid, InvalidInput
from agentctx.names import readable

if TYPE_CHECKING:
    from agentctx.config.schema import Settings


_PLACE: Final = ("access", "grants")
_RELOAD = "a running daemon uses it after `systemctl reload agentctx` (or SIGHUP)"

app = typer.Typer(no_args_is_help=True, help="Control who else may use the memory.")
_EMPTY_GRANTS: Final = re.compile(
    r"^[ \t]*grants[ \t]*=[ \t]*\[[ \t]*\][ \t]*(#[^\n]*)?(?:\n|$)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class GrantReport:
    """A grant and its config file. `changed` is false if the file already had the grant."""

    file: str
    kind: str
    name: str
    namespace: str | None
    rights: str
    changed: bool
    dry_run: bool


@dataclass(frozen=True, slots=True)
class ShownGrant:
    """A grant in the config, with the user or group name, or its number if it has no name."""

    user: str | None
    group: str | None
    namespaces: list[str]
    rights: str


@dataclass(frozen=True, slots=True)
class GrantList:
    """All grants in a config file."""

    file: str | None
    grants: list[ShownGrant]


@app.command()
def grant(
    user: Annotated[str, typer.Argument(metavar="USER", help="Name or number of the user.")],
    namespace: Annotated[
        str | None,
        typer.Argument(
            metavar="NAMESPACE",
            help="A namespace; a trailing * matches any suffix, '*' alone all namespaces.",
        ),
    ] = None,
    *,
    write: Annotated[bool, typer.Option("--write/--read", help="Read and write, or only read.")] = True,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Read /metrics, and nothing else; without NAMESPACE.")
    ] = False,
    group: Annotated[
        bool, typer.Option("--group", help="USER is a group; the grant applies to all its members.")
    ] = False,
    config: ConfigFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a user of this machine read or write a namespace; the config file is checked before it changes."""
    if metrics == (namespace is not None):
        raise typer.BadParameter("name either a namespace or --metrics", param_hint="NAMESPACE")
    file = _file(config)
    requested = NamedGrant(
        kind="gid" if group else "uid",
        name=user,
        namespace=namespace,
        rights="metrics" if metrics else "write" if write else "read",
    )
    _check_exists(requested)
    before = read_bounded(file).decode() if file.exists() else ""
    after = with_grant(before, requested)
    settings = _checked(after, file)
    is_new = after != before
    if is_new and not dry_run:
        _replace(file, after)
    report = GrantReport(str(file), requested.kind, user, namespace, requested.rights, is_new, dry_run)
    who = requested.name if requested.kind == "uid" else f"group {requested.name}"
    done = "already granted" if not is_new else "would be granted" if dry_run else "granted"
    where = [] if namespace is None else [readable(namespace)]
    show(report, ["  ".join([done, who, requested.rights, *where, str(file)])], as_json)
    if is_new and not dry_run:
        print_note(_RELOAD)
    if (remark := _cannot_connect(requested, settings)) is not None:
        print_note(remark)


@app.command("list")
def list_grants(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List who may use which namespaces."""
    from agentctx.config.load import load_settings

    file = _file(config)
    settings = load_settings(file if file.exists() else None)
    grants = [
        ShownGrant(
            user=_name_of(each.uid, pwd.getpwuid),
            group=_name_of(each.gid, grp.getgrgid),
            namespaces=list(each.namespaces),
            rights=each.rights,
        )
        for each in settings.access.grants
    ]
    rows = [
        (each.user or f"group {each.group}", each.rights, " ".join(map(readable, each.namespaces)))
        for each in grants
    ]
    lines = table(("WHO", "RIGHTS", "NAMESPACES"), rows, None) if rows else []
    nothing = None if rows else "no grants: only the daemon's own user and root may use it"
    show(GrantList(str(file) if file.exists() else None, grants), lines, as_json, nothing)


def _file(config: Path | None) -> Path:
    """Return the file to edit: the one named or in use, else where the daemon would look for one."""
    from agentctx.config.load import find_config_file

    if config is not None:
        return config
    if (found := find_config_file()) is not None:
        return found
    is_system = os.geteuid() == 0 and SYSTEM_CONFIG.parent.is_dir()
    return SYSTEM_CONFIG if is_system else config_candidates()[0]


def _check_exists(requested: NamedGrant) -> None:
    from agentctx.config.accounts import group_id, user_id

    identify = user_id if requested.kind == "uid" else group_id
    try:
        identify(requested.table[requested.kind])
    except ValueError as error:
        message = str(error)
        raise InvalidInput(
            f"{message[:1].upper()}{message[1:]}.",
            hint="Create the account first; --group takes the name of a group.",
        ) from None


def _checked(text: str, file: Path) -> Settings:
    """Return the settings that `file` would have with this text. Raises `ConfigInvalid`."""
    from agentctx.config.load import load_settings

    with tempfile.TemporaryDirectory() as folder:
        candidate = Path(folder) / "config.toml"
        candidate.write_text(text, encoding="utf-8")
        try:
            return load_settings(candidate)
        except ConfigInvalid as error:
            named = error.message.replace(str(candidate), str(file))
            raise ConfigInvalid(named, hint=error.hint) from None


def _replace(file: Path, text: str) -> None:
    from agentctx.agents.connect.files import replace

    is_new = not file.exists()
    replace(file.resolve(), text.encode())
    if is_new and file.is_relative_to(SYSTEM_CONFIG.parent):
        file.chmod(0o644)  # the service reads the file as its own user


def _cannot_connect(requested: NamedGrant, settings: Settings) -> str | None:
    """Return why the user cannot open the socket yet, as far as the config shows, or None."""
    name = settings.server.socket_group
    if requested.kind == "gid" or not name:
        return None
    try:
        account = pwd.getpwnam(requested.name)
        group = grp.getgrnam(name)
    except KeyError:
        return None
    if group.gr_gid in os.getgrouplist(account.pw_name, account.pw_gid):
        return None
    return f"{requested.name} cannot connect yet: sudo usermod --append --groups {name} {requested.name}"


def _name_of(number: int | None, look_up: Callable[[int], Any]) -> str | None:
    """Return the name of a user or group, or its number if it has none; None stays None."""
    try:
        return None if number is None else str(look_up(number)[0])
    except KeyError:
        return str(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGrant:
    """A right in one namespace, or to read the metrics, granted to a user or a group by name or number."""

    kind: Literal["uid", "gid"]
    name: str
    namespace: str | None
    rights: Literal["read", "write", "admin", "metrics"]

    @property
    def table(self) -> dict[str, Any]:
        """The grant as the config file writes it."""
        name = int(self.name) if self.name.isdecimal() else self.name
        where = {} if self.namespace is None else {"namespaces": [self.namespace]}
        return {self.kind: name, **where, "rights": self.rights}

    @property
    def lines(self) -> list[str]:
        """The items of the table; JSON's escapes are also valid TOML."""
        return [f"{name} = {json.dumps(value)}" for name, value in self.table.items()]


def with_grant(text: str, grant: NamedGrant) -> str:
    """Return the text with the grant appended, or unchanged if it already has the grant.

    Raises:
        ConfigInvalid: the text is not TOML, or its grants are written in a form that cannot be extended.
    """
    from agentctx.agents.connect.toml_text import TomlUnreadable, equal_except, table_in

    try:
        grants = table_in(text, _PLACE) or []
    except TomlUnreadable as error:
        raise ConfigInvalid(f"The config is not valid TOML: {error}.", hint="Correct it first.") from None
    if any(_covers(each, grant) for each in grants):
        return text
    before = text if grants else _EMPTY_GRANTS.sub("", text, count=1)
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    edited = "\n".join([f"{before}{gap}[[access.grants]]", *grant.lines, ""])
    with suppress(TomlUnreadable):
        if table_in(edited, _PLACE) == [*grants, grant.table] and equal_except(text, edited, _PLACE):
            return edited
    raise ConfigInvalid(
        "The grants in the config are written in a form that cannot be extended.",
        hint=f"Add this one to access.grants yourself: {{ {', '.join(grant.lines)} }}",
    )


def _covers(present: Any, grant: NamedGrant) -> bool:
    table = grant.table
    return (
        isinstance(present, dict)
        and present.get(grant.kind) == table[grant.kind]
        and present.get("rights") == grant.rights
        and (grant.namespace is None or grant.namespace in present.get("namespaces", []))
    )
