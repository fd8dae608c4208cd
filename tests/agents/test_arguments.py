import pytest

from agentctx.agents.arguments import UsageError, last_of, parsed


def test_words_options_and_flags() -> None:
    args = ["Stop", "--client", "codex", "--socket=/run/a=b", "--remember"]
    assert parsed(args, options=("--client", "--socket"), flags=("--remember",)) == (
        ["Stop"],
        {"--client": ["codex"], "--socket": ["/run/a=b"], "--remember": ["yes"]},
    )


@pytest.mark.parametrize("args", [["--client"], ["--nothing"], ["--remember=1"]])
def test_a_wrong_command_line_says_what_is_wrong(args: list[str]) -> None:
    with pytest.raises(UsageError, match=args[0].partition("=")[0]):
        parsed(args, options=("--client",), flags=("--remember",))


def test_an_option_given_twice_has_both_values_and_the_last_counts() -> None:
    _, options = parsed(["--client", "a", "--client=b"], options=("--client",))
    assert options == {"--client": ["a", "b"]}
    assert last_of(options, "--client") == "b"
    assert last_of(options, "--socket") is None
