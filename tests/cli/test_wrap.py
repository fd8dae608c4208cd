from __future__ import annotations

import json

import pytest

from agentctx.cli.app import run
from agentctx.cli.wrap import variables, wrapped
from agentctx.errors import InvalidInput
from agentctx.wire import ProxyStatus

PROXY = ProxyStatus(port=18181, token_file="/none")


def test_the_users_own_headers_are_kept() -> None:
    present = {"ANTHROPIC_CUSTOM_HEADERS": "X-Team: blue\nX-Cost: 7\n", "OPENAI_CUSTOM_HEADERS": "X-Org: o"}
    added = variables(PROXY, "token", session="s", present=present)
    assert added["ANTHROPIC_CUSTOM_HEADERS"] == "X-Team: blue\nX-Cost: 7\nX-Agentctx-Session: s"
    assert added["OPENAI_CUSTOM_HEADERS"] == "X-Org: o\nX-Agentctx-Session: s"
    assert "OPENAI_CUSTOM_HEADERS" not in variables(PROXY, "token", present=present)


def test_the_help_shows_the_command_argument_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["wrap", "--help"]) == 0
    usage = next(line for line in capsys.readouterr().out.splitlines() if "Usage" in line)
    assert usage.rstrip().endswith("COMMAND}...")


BASE = "http://127.0.0.1:1/t/T/proxy"


def test_codex_gets_the_address_as_a_setting_before_its_command() -> None:
    program = wrapped(["/opt/bin/codex", "exec", "hi"], BASE, {}, {})
    override = f'openai_base_url="{BASE}/openai/v1"'
    assert program == (["/opt/bin/codex", "-c", override, "exec", "hi"], {})


def test_opencode_keeps_settings_from_its_environment() -> None:
    present = {"OPENCODE_CONFIG_CONTENT": '{"theme":"x","provider":{"openai":{"options":{"timeout":5}}}}'}
    program = wrapped(["opencode"], BASE, {"X-Agentctx-Session": "s"}, present)
    content = json.loads(program.variables["OPENCODE_CONFIG_CONTENT"])
    headers = {"X-Agentctx-Session": "s"}
    assert content["theme"] == "x"
    assert content["provider"]["openai"]["options"] == {
        "timeout": 5,
        "baseURL": f"{BASE}/openai/v1",
        "headers": headers,
    }
    assert content["provider"]["anthropic"]["options"]["baseURL"] == f"{BASE}/anthropic/v1"


@pytest.mark.parametrize("content", ["[]", "{"])
def test_unreadable_opencode_settings_are_refused(content: str) -> None:
    with pytest.raises(InvalidInput):
        wrapped(["opencode"], BASE, {}, {"OPENCODE_CONFIG_CONTENT": content})


@pytest.mark.parametrize(("kind", "path"), [("openai", "openai/v1"), ("anthropic", "anthropic")])
def test_copilot_calls_the_users_provider_through_the_proxy(kind: str, path: str) -> None:
    present = {"COPILOT_PROVIDER_TYPE": kind, "COPILOT_PROVIDER_API_KEY": "k"}
    program = wrapped(["copilot"], BASE, {}, present)
    assert program.variables == {"COPILOT_PROVIDER_BASE_URL": f"{BASE}/{path}"}


@pytest.mark.parametrize("present", [{}, {"COPILOT_PROVIDER_TYPE": "azure", "COPILOT_PROVIDER_API_KEY": "k"}])
def test_copilot_without_the_users_provider_is_refused(present: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="GitHub's own models"):
        wrapped(["copilot"], BASE, {}, present)


def test_other_programs_are_started_unchanged() -> None:
    assert wrapped(["python", "-c", "1"], BASE, {}, {}) == (["python", "-c", "1"], {})
