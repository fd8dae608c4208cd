import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from agentctx.cli import commands
from agentctx.cli.app import load_command, run
from agentctx.cli.commands import EXAMPLES, SECTIONS, examples_of

LOADED: dict[str, Any] = {name: load_command(name) for name in commands.COMMANDS}


def below(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(command, TyperGroup):
        yield path, command
        return
    for name, each in command.commands.items():
        yield from below(f"{path} {name}", each)


COMMANDS = {path: command for name in LOADED for path, command in below(name, LOADED[name])}


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


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_are_valid_command_lines(line: str) -> None:
    words = shlex.split(line)
    words = words[words.index("agentctx") + 1 :]
    words = words[: words.index("|")] if "|" in words else words
    name = next(name for name in sorted(COMMANDS, key=len, reverse=True) if is_prefix(name, words))
    assert line in examples_of(name)
    arguments = words[len(name.split()) :]
    if "--help" not in arguments:
        COMMANDS[name].make_context(name, arguments)


def is_prefix(name: str, words: list[str]) -> bool:
    return words[: len(name.split())] == name.split()


@pytest.mark.parametrize("names", SECTIONS.values(), ids=SECTIONS)
def test_the_help_of_all_says_of_a_command_what_its_own_help_begins_with(names: dict[str, str]) -> None:
    assert names == {name: LOADED[name].get_short_help_str(1_000) for name in names}


def test_a_command_that_needs_nothing_is_its_own_example() -> None:
    assert examples_of("queue drain") == ["agentctx queue drain"]
    assert examples_of("status") == ["agentctx status", "agentctx status --json"]


def test_choices_are_shown() -> None:
    assert "rule|definition|preference|fact|pattern|correction" in help_of(COMMANDS["save knowledge"])
    assert "distance|relevance" in help_of(COMMANDS["search"])


def test_the_help_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-h"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    headings = [line.removesuffix(":") for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *SECTIONS]
    assert not [line for line in lines[1:] if line.endswith("...")]
