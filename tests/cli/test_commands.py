import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from agentctx.cli.app import create_app, run
from agentctx.cli.commands import EXAMPLES, SECTIONS, sections


def commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


COMMANDS = dict(commands(create_app()))


def help_of(command: Any) -> str:
    return str(command.get_help(typer.Context(command, info_name="x")))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_accepts_socket_and_json(name: str) -> None:
    spelled = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert {"--socket", "--json"} <= spelled


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_no_python_types(name: str) -> None:
    assert not re.search(r"<[^>]*(str|int|float|path|list)[^>]*>", help_of(COMMANDS[name]), re.IGNORECASE)


@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith("dev ")])
def test_help_has_examples(name: str) -> None:
    assert "Examples:" in help_of(COMMANDS[name])


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_examples_are_valid_command_lines(line: str) -> None:
    words = shlex.split(line)
    words = words[words.index("agentctx") + 1 :]
    words = words[: words.index("|")] if "|" in words else words
    name = next(name for name in sorted(COMMANDS, key=len, reverse=True) if is_prefix(name, words))
    assert line in EXAMPLES[name]
    arguments = words[len(name.split()) :]
    if "--help" not in arguments:
        COMMANDS[name].make_context(name, arguments)


def is_prefix(name: str, words: list[str]) -> bool:
    return words[: len(name.split())] == name.split()


def test_choices_are_shown() -> None:
    assert "rule|definition|preference|fact|pattern|correction" in help_of(COMMANDS["save knowledge"])
    assert "distance|relevance" in help_of(COMMANDS["search"])


def test_only_headings_with_commands_are_shown() -> None:
    assert sections(["search", "wrap", "get"]) == {"Ask": ["search", "get", "wrap"]}


def test_the_help_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-h"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    headings = [line.removesuffix(":") for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *SECTIONS]
    assert not [line for line in lines[1:] if line.endswith("...")]
