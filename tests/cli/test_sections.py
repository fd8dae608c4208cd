import pytest
import typer

from agentctx.cli.app import create_app, run
from agentctx.cli.sections import SECTIONS, sections


def test_every_command_has_its_place_in_the_help() -> None:
    root = typer.main.get_command(create_app())
    names = list(root.commands)  # type: ignore[attr-defined]  # it is a group
    assert sorted(name for found in sections(names).values() for name in found) == sorted(names)
    assert set(sections(names)) <= set(SECTIONS)


def test_a_command_without_a_place_comes_last() -> None:
    assert sections(["new", "search"]) == {"Ask": ["search"], "More": ["new"]}


def test_the_help_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-h"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    headings = [line.removesuffix(":") for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *SECTIONS]
    assert not [line for line in lines[1:] if line.endswith("...")]
