from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer

from agentctx.cli.app import SuggestingGroup  # which makes Typer read values in our way

READ: dict[str, Any] = {}
app = typer.Typer(cls=SuggestingGroup, rich_markup_mode=None, add_completion=False)


@app.command()
def command(
    words: Annotated[list[str] | None, typer.Argument()] = None,
    count: Annotated[int | None, typer.Option(min=1, max=9)] = None,
    share: Annotated[float, typer.Option(min=0, max=2)] = 0.5,
    file: Path | None = None,
    order: Literal["up", "down"] = "up",
    tag: list[str] | None = None,
    flag: bool = False,
) -> None:
    READ.update(words=words, count=count, share=share, file=file, order=order, tag=tag, flag=flag)


def read(*args: str) -> dict[str, Any]:
    READ.clear()
    app(args, standalone_mode=False)
    return READ


def test_values_have_the_kind_that_their_parameter_declares() -> None:
    given = [
        "a",
        "b",
        "--count",
        "3",
        "--share",
        "1",
        "--file",
        "x/y",
        "--order",
        "down",
        "--tag=t",
        "--flag",
    ]
    assert read(*given) == {
        "words": ["a", "b"],
        "count": 3,
        "share": 1.0,
        "file": Path("x/y"),
        "order": "down",
        "tag": ["t"],
        "flag": True,
    }
    assert isinstance(READ["share"], float)


def test_what_is_not_given_has_its_default() -> None:
    read()
    assert (READ["count"], READ["share"], READ["file"], READ["order"], READ["flag"]) == (
        *(None, 0.5, None, "up", False),
    )
    assert not READ["words"]
    assert not READ["tag"]


def test_the_bounds_are_allowed() -> None:
    assert read("--count", "1", "--share", "2")["count"] == 1
    assert read("--count", "9", "--share", "0")["share"] == 0


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--count", "x", "use a whole number"),
        ("--count", "1.5", "use a whole number"),
        ("--count", "", "use a whole number"),
        ("--count", "9" * 5_000, "use a whole number"),
        ("--count", "0", "use 1 or more"),
        ("--count", "10", "use 9 or less"),
        ("--share", "x", "use a number"),
        ("--share", "-0.1", "use 0 or more"),
        ("--share", "2.1", "use 2 or less"),
        ("--share", "nan", "use 0 or more"),
        ("--order", "Up", "'Up' is not one of 'up', 'down'."),
        ("--order", "\x1b[2J", "'\\x1b[2J' is not one of 'up', 'down'."),
    ],
)
def test_a_wrong_value_is_refused_in_plain_words(option: str, value: str, said: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        read(option, value)
    assert refused.value.format_message() == f"Invalid value for '{option}': {said}"
