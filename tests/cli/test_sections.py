from __future__ import annotations

import pytest

from agentctx.cli import main
from agentctx.cli.app import run
from agentctx.cli.sections import SECTIONS, sections


def test_only_headings_with_commands_are_shown() -> None:
    assert sections(["search", "wrap", "get"]) == {"Ask": ["search", "get", "wrap"]}


def test_the_help_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-h"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    headings = [line.removesuffix(":") for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *SECTIONS]
    assert not [line for line in lines[1:] if line.endswith("...")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["search", "x", "--limit", "0"], "Invalid value for '--limit': use 1 or more"),
        (["search", "x", "--limit", "abc"], "Invalid value for '--limit': use a whole number"),
        (["search", "x", "--order", "up"], "'up' is not one of 'distance', 'relevance'"),
        (["dev", "fake-provider", "--port", "70000"], "Invalid value for '--port': use 65535 or less"),
        (["top", "--interval", "soon"], "Invalid value for '--interval': use a number"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_invalid_values_are_explained_plainly(
    arguments: list[str], said: str, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, *(["--json"] if as_json else [])])
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert "Input should" not in shown
    assert "Value error" not in shown


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("add remember store", "agentctx save"),
        ("delete rm remove", "agentctx forget"),
        ("recall find ask query", "agentctx search"),
        ("ls", "agentctx list"),
        ("cat show", "agentctx get"),
        ("update", "agentctx edit"),
        ("start", "agentctx serve"),
        ("stop", "agentctx service"),
        ("serach", "agentctx search"),
    ],
)
def test_a_synonym_is_suggested_and_not_run(
    words: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for word in words.split():
        assert run([word, "x"]) == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.startswith(f"Error: No such command '{word}'. Did you mean `{meant}`")
        assert "reembed" not in said


def test_subcommands_are_suggested_too(capsys: pytest.CaptureFixture[str]) -> None:
    for args, meant in {
        "service start": "agentctx service install",
        "access add": "agentctx access grant",
        "queue show": "agentctx queue status",
    }.items():
        assert run(args.split()) == 2
        assert f"Did you mean `{meant}`?" in capsys.readouterr().err
    assert run(["frobnicate"]) == 2
    assert "Did you mean" not in capsys.readouterr().err
