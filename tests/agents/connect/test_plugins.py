import json
import re

import pytest

from agentctx.agents.connect.plugins import plugin


def constants(text: str) -> dict[str, object]:
    return {
        name: json.loads(value) for name, value in re.findall(r"^const ([A-Z]+) = (.*)$", text, re.MULTILINE)
    }


@pytest.mark.parametrize("client", ["opencode", "pi", "cline"])
def test_the_plugin_starts_this_program_with_its_socket(client: str) -> None:
    text = plugin(client, ('/opt/a "b"/agentctx',), "/run/a.sock", remember=None)
    assert constants(text) == {
        "COMMAND": ['/opt/a "b"/agentctx'],
        "OPTIONS": ["--client", client, "--socket", "/run/a.sock"],
        "REMEMBERS": False,
    }
    assert "%" not in text
    assert f"connect {client} --undo" in text


@pytest.mark.parametrize("client", ["opencode", "pi", "cline"])
def test_turns_are_remembered_only_on_request(client: str) -> None:
    text = plugin(client, ("agentctx",), "/run/a.sock", remember="auto")
    assert constants(text)["REMEMBERS"] is True
    assert '"--remember"]' in text
