"""What every command gets: `--socket` and `--json` behind its name, names of values, examples in its help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from agentctx.cli.examples import EXAMPLES

COMMON: Final = frozenset({"socket", "json"})
"""Names of what every command takes."""
_VALUES: Final = {"int": "N", "float": "NUMBER", "path": "PATH", "str": "TEXT"}


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
    """The options, declared as any command declares its own."""


def complete_commands(group: TyperGroup, path: str = "agentctx") -> None:
    """Give every command of the group what all have in common."""
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
    """What stands for an option's value in help: its own word, the choices, or the kind of value."""
    if option.metavar:
        return option.metavar
    kind = str(option.display_type_rich(ctx=_CONTEXT)).strip("<>")
    return _VALUES.get(kind.removesuffix(" range"), kind)


def _name_value(parameter: Any) -> None:
    if isinstance(parameter, TyperArgument):
        parameter.display_type_rich = _nothing  # type: ignore[method-assign]  # its help shows the type of Python
    elif isinstance(parameter, TyperOption) and not parameter.is_flag:
        parameter.metavar = value_name(parameter)


def _nothing(ctx: object) -> str:  # noqa: ARG001 - typer's signature
    return ""


def _common() -> Iterator[TyperOption]:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(_given)
    return (each for each in typer.main.get_command(app).params if isinstance(each, TyperOption))


_CONTEXT: Final[Any] = typer.Context(TyperGroup(name="agentctx"))
