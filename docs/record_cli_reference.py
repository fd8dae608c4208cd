"""Writes docs/cli.md, made from the commands: `make reference`. What commands print, at its end, is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from typer.core import TyperArgument, TyperGroup, TyperOption

from agentctx.cli.app import create_app, load_command, value_name
from agentctx.cli.commands import SECTIONS, examples_of

PAGE: Final = Path(__file__).with_name("cli.md")
_RECORDED: Final = "<!-- Recorded "
"""The beginning of the part of the page that `make transcripts` records."""

_HEAD = """\
# Command line

<!-- Made from the commands by `make reference`; do not edit it. -->

[What commands print](#what-commands-print) has examples of each.

Data goes to stdout, messages to stderr. `--json` prints one JSON document. Colour is for terminals:
`NO_COLOR` and `TERM=dumb` switch it off, `FORCE_COLOR` on. `agentctx --install-completion` makes bash, zsh
or fish complete commands, options and values.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed; stderr says what is wrong and what to do |
| 2 | the command line or its input is invalid: repeating it does not help |
| 3 | no daemon can be reached on the socket |
| 78 | of `serve`: it will fail again until the configuration is changed |
| 130 | interrupted |

## Options of every command

`--socket` and `--json` may be given before or after the command: `agentctx --socket PATH status`,
`agentctx status --socket PATH`.
"""


def page(current: str) -> str:
    """Return the page with the commands as they are, and the recorded part of the current page."""
    return f"{reference()}\n{current[current.index(_RECORDED) :]}"


def reference() -> str:
    """Return every command with its arguments and options, in the order of `agentctx --help`."""
    parts = [_HEAD, _table(_options(create_app()))]
    for heading, names in SECTIONS.items():
        parts.append(f"## {heading}\n")
        for name in names:
            parts += [
                _command(path, command) for path, command in _commands(f"agentctx {name}", load_command(name))
            ]
    return "\n".join(parts)


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield the command, or the commands of a group, with their paths."""
    if not isinstance(command, TyperGroup):
        yield path, command
        return
    for name, below in command.commands.items():
        yield from _commands(f"{path} {name}", below)


def _command(path: str, command: Any) -> str:
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    usage = " ".join([path, *(_argument(each) for each in arguments)])
    return "\n".join(
        [
            f"### `{usage}`\n",
            f"{_one_line(command.help or '')}\n",
            *(f"- `{_argument(each)}`: {_one_line(each.help or '')}" for each in arguments),
            *([""] if arguments else []),
            *("```text", *examples_of(path.removeprefix("agentctx ")), "```", ""),
            _table([each for each in _options(command) if each.expose_value]),
        ]
    )


def _options(command: Any) -> list[TyperOption]:
    return [each for each in command.params if isinstance(each, TyperOption)]


def _table(options: list[TyperOption]) -> str:
    rows = ["| option | default | meaning |", "|---|---|---|"]
    rows += [f"| `{_names(each)}` | {_default(each)} | {_cell(each.help or '')} |" for each in options]
    return "\n".join(rows) + "\n"


def _names(option: TyperOption) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    return names if option.is_flag else f"{names} {_cell(value_name(option))}"


def _default(option: TyperOption) -> str:
    if option.required:
        return "required"
    if option.is_flag or option.default is None:
        return ""
    return "" if callable(option.default) else f"`{option.default}`"


def _argument(argument: TyperArgument) -> str:
    name = argument.metavar or str(argument.name).upper()
    return f"{name}…" if argument.nargs != 1 else name


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _one_line(text).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
