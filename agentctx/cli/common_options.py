"""What all commands share: `--socket` and `--json` after the name, value names and examples in the help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

COMMON: Final = frozenset({"socket", "json"})
"""Names of the options that every command takes."""
ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help="Config file. Default: the first usual location that exists."),
]
DataDir: TypeAlias = Annotated[Path | None, typer.Option("--data-dir", help="Folder of the database.")]
_VALUES: Final = {"int": "N", "float": "NUMBER", "path": "PATH", "str": "TEXT"}
EXAMPLES: Final[Mapping[str, Sequence[str]]] = {
    "serve": (
        "agentctx serve",
        "agentctx serve --data-dir /srv/agentctx --socket /run/user/1000/agentctx.sock",
    ),
    "save knowledge": (
        'agentctx save knowledge --key deploy-window --category rule "Deploys happen on Tuesdays."',
        "cat notes.txt | agentctx save knowledge --key notes -",
    ),
    "save observation": ('agentctx save observation --session s1 "The staging database is slow."',),
    "save reflection": ('agentctx save reflection --session s1 "Slow databases precede failed deploys."',),
    "save learning": (
        'agentctx save learning --trigger tool:psql --error-pattern "too many" --fix "Raise the limit."',
    ),
    "get": ("agentctx get deploy-window", "agentctx get deploy-window --version 1"),
    "list": ("agentctx list --tag ops --since 7d", "agentctx list --collection learning --agent planner"),
    "edit": (
        "agentctx edit deploy-window",
        'agentctx edit deploy-window --content "Deploys happen on Wednesdays."',
    ),
    "namespaces": ("agentctx namespaces",),
    "history": ("agentctx history deploy-window --diff",),
    "forget": (
        "agentctx forget deploy-window --dry-run",
        "agentctx forget deploy-window --yes",
        "agentctx forget --all --namespace user:ann",
        "agentctx forget --rewrite",
    ),
    "undo": ("agentctx undo --since 10m --dry-run", "agentctx undo --since 2h --agent planner"),
    "revoke": ("agentctx revoke --agent planner --dry-run", "agentctx revoke --session s1 --yes"),
    "release": ("agentctx release deploy-window",),
    "learning outcome": ("agentctx learning outcome LEARNING --success",),
    "ingest": ("agentctx ingest ~/notes --dry-run", "agentctx ingest . --include '*.md' --wait"),
    "search": ("agentctx search when do deploys happen", "agentctx search --tag ops --full deploys"),
    "context": (
        "agentctx context when do deploys happen",
        "agentctx context --all --budget 500 deploys",
    ),
    "why": ("agentctx why", "agentctx why --last"),
    "why-not": ('agentctx why-not deploy-window --query "When may I release?"',),
    "wrap": ("agentctx wrap -- python my_agent.py",),
    "connect": ("agentctx connect --dry-run", "agentctx connect claude-code"),
    "mcp": ("agentctx mcp",),
    "hook": ("agentctx hook --help",),
    "status": ("agentctx status", "agentctx status --json"),
    "queue status": ("agentctx queue status",),
    "queue retry": ("agentctx queue retry",),
    "queue drain": ("agentctx queue drain",),
    "top": ("agentctx top", "agentctx top --once"),
    "config init": ("agentctx config init",),
    "config show": ("agentctx config show --changed",),
    "config check": ("agentctx config check", "agentctx config check --config /etc/agentctx/config.toml"),
    "access grant": (
        "agentctx access grant alice team",
        'agentctx access grant --group agents "team-*" --read',
        "agentctx access grant prometheus --metrics",
    ),
    "access list": ("agentctx access list",),
    "service uninstall": ("sudo agentctx service uninstall --dry-run",),
    "service status": ("agentctx service status",),
    "service install": ("sudo agentctx service install --dry-run",),
    "migrate": (
        "agentctx migrate --dry-run",
        "agentctx migrate --to postgresql://agentctx@db.example.org/agentctx",
    ),
    "reembed": ("agentctx reembed --status", "agentctx reembed --switch"),
    "audit list": ("agentctx audit list --kind forget",),
    "audit verify": ("agentctx audit verify",),
    "backup": ("agentctx backup", "agentctx backup /mnt/backups/agentctx.db"),
    "restore": ("agentctx restore /mnt/backups/agentctx.db --dry-run",),
    "export": ("agentctx export memories.jsonl", "agentctx export - --namespace team | gzip > team.jsonl.gz"),
    "import": ("agentctx import memories.jsonl --dry-run",),
    "doctor": ("agentctx doctor", "agentctx doctor --json --strict"),
    "demo": ("agentctx demo",),
}
"""Examples by command, without the leading `agentctx`."""


def _use_socket(ctx: typer.Context, value: Path | None) -> Path | None:
    if value is not None:
        ctx.obj = value
    return value


def _given(
    socket: Annotated[
        Path | None,
        typer.Option(expose_value=False, callback=_use_socket, help="Socket of the daemon."),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", expose_value=False, help="Print an error as one JSON document on stderr."),
    ] = False,
) -> None:
    """Declare the common options the way any command declares its own."""


def complete_commands(group: TyperGroup, path: str = "agentctx") -> None:
    """Add the common options, value names and examples to every command of the group."""
    for name, command in group.commands.items():
        own = f"{path} {name}"
        if isinstance(command, TyperGroup):
            complete_commands(command, own)
            continue
        present = {spelled for option in command.params for spelled in option.opts}
        command.params += [option for option in _common() if not present & set(option.opts)]
        for parameter in command.params:
            _name_value(parameter)
        if lines := EXAMPLES.get(own.removeprefix("agentctx ")):
            command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def value_name(option: TyperOption) -> str:
    """Return the placeholder of an option's value in help: its metavar, its choices, or the kind of value."""
    if option.metavar:
        return option.metavar
    kind = str(option.display_type_rich(ctx=_CONTEXT)).strip("<>")
    return _VALUES.get(kind.removesuffix(" range"), kind)


def _name_value(parameter: Any) -> None:
    if isinstance(parameter, TyperArgument):
        parameter.display_type_rich = _nothing  # type: ignore[method-assign]  # the help would show the Python type
    elif isinstance(parameter, TyperOption) and not parameter.is_flag:
        parameter.metavar = value_name(parameter)


def _nothing(ctx: object) -> str:  # noqa: ARG001 - typer's signature
    return ""


def _common() -> Iterator[TyperOption]:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(_given)
    return (each for each in typer.main.get_command(app).params if isinstance(each, TyperOption))


_CONTEXT: Final[Any] = typer.Context(TyperGroup(name="agentctx"))
