"""What each program needs so that its calls go through the proxy."""

from __future__ import annotations

import json

import pytest

from agentctx.cli.wrapped_programs import wrapped
from agentctx.errors import InvalidInput

BASE = "http://127.0.0.1:1/t/T/proxy"


def test_codex_gets_the_address_as_a_setting_before_its_command() -> None:
    program = wrapped(["/opt/bin/codex", "exec", "hi"], BASE, {}, {})
    override = f'openai_base_url="{BASE}/openai/v1"'
    assert program == (["/opt/bin/codex", "-c", override, "exec", "hi"], {})


def test_opencode_keeps_the_settings_that_its_environment_has() -> None:
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
def test_settings_of_opencode_that_cannot_be_read_are_refused(content: str) -> None:
    with pytest.raises(InvalidInput):
        wrapped(["opencode"], BASE, {}, {"OPENCODE_CONFIG_CONTENT": content})


@pytest.mark.parametrize(("kind", "path"), [("openai", "openai/v1"), ("anthropic", "anthropic")])
def test_copilot_calls_the_provider_of_the_user_through_the_proxy(kind: str, path: str) -> None:
    present = {"COPILOT_PROVIDER_TYPE": kind, "COPILOT_PROVIDER_API_KEY": "k"}
    program = wrapped(["copilot"], BASE, {}, present)
    assert program.variables == {"COPILOT_PROVIDER_BASE_URL": f"{BASE}/{path}"}


@pytest.mark.parametrize("present", [{}, {"COPILOT_PROVIDER_TYPE": "azure", "COPILOT_PROVIDER_API_KEY": "k"}])
def test_copilot_without_a_provider_of_the_user_is_refused(present: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="GitHub's own models"):
        wrapped(["copilot"], BASE, {}, present)


def test_other_programs_are_started_as_they_are() -> None:
    assert wrapped(["python", "-c", "1"], BASE, {}, {}) == (["python", "-c", "1"], {})
