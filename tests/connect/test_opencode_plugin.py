import json
import re

from agentctx.connect.opencode_plugin import opencode_plugin


def constants(text: str) -> dict[str, object]:
    return {
        name: json.loads(value) for name, value in re.findall(r"^const ([A-Z]+) = (.*)$", text, re.MULTILINE)
    }


def test_the_plugin_starts_this_program_with_its_socket() -> None:
    text = opencode_plugin(('/opt/a "b"/agentctx',), "/run/a.sock", remember=False)
    assert constants(text) == {
        "COMMAND": ['/opt/a "b"/agentctx'],
        "OPTIONS": ["--client", "opencode", "--socket", "/run/a.sock"],
        "REMEMBERS": False,
    }
    assert "%" not in text


def test_turns_are_remembered_only_on_request() -> None:
    text = opencode_plugin(("agentctx",), "/run/a.sock", remember=True)
    assert constants(text)["REMEMBERS"] is True
    assert '"--remember"]' in text
