import pytest

from agentctx.mcp.arguments import UsageError, parsed


def test_words_options_and_flags() -> None:
    args = ["Stop", "--client", "codex", "--socket=/run/a=b", "--remember"]
    assert parsed(args, options=("--client", "--socket"), flags=("--remember",)) == (
        ["Stop"],
        {"--client": "codex", "--socket": "/run/a=b", "--remember": "yes"},
    )


@pytest.mark.parametrize("args", [["--client"], ["--nothing"], ["--remember=1"]])
def test_a_wrong_command_line_says_what_is_wrong(args: list[str]) -> None:
    with pytest.raises(UsageError, match=args[0].partition("=")[0]):
        parsed(args, options=("--client",), flags=("--remember",))
