import pytest

from agentctx.cli.app import run
from agentctx.cli.wrap import variables
from agentctx.wire import ProxyStatus

PROXY = ProxyStatus(port=18181, token_file="/none")


def test_the_users_own_headers_are_kept() -> None:
    present = {"ANTHROPIC_CUSTOM_HEADERS": "X-Team: blue\nX-Cost: 7\n", "OPENAI_CUSTOM_HEADERS": "X-Org: o"}
    added = variables(PROXY, "token", session="s", present=present)
    assert added["ANTHROPIC_CUSTOM_HEADERS"] == "X-Team: blue\nX-Cost: 7\nX-Agentctx-Session: s"
    assert added["OPENAI_CUSTOM_HEADERS"] == "X-Org: o\nX-Agentctx-Session: s"
    assert "OPENAI_CUSTOM_HEADERS" not in variables(PROXY, "token", present=present)


def test_the_help_shows_once_that_the_command_has_many_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["wrap", "--help"]) == 0
    usage = next(line for line in capsys.readouterr().out.splitlines() if "Usage" in line)
    assert usage.rstrip().endswith("COMMAND}...")
