from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.cli.wrap import Redirect, variables, wrapped
from agentctx.errors import AccessDenied, InvalidInput
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


class Daemon:
    """Begins runs, or refuses to."""

    def __init__(self, refuses: bool = False) -> None:
        self.begun: list[tuple[str, str]] = []
        self.refuses = refuses

    def begin_run(self, vendor: str, url: str) -> str:
        if self.refuses:
            raise AccessDenied("Not you.")
        self.begun.append((vendor, url))
        return "run"


RUN = "http://127.0.0.1:18181/t/run/proxy"


def test_a_base_url_that_was_set_is_the_upstream(capsys: pytest.CaptureFixture[str]) -> None:
    daemon = Daemon()
    redirect = Redirect(daemon.begin_run, PROXY)
    cases = [
        ("openai", "https://gw.example/v1", "https://gw.example/v1"),
        ("ollama", "0.0.0.0", "http://127.0.0.1:11434"),  # noqa: S104
        ("ollama", "localhost:1234", "http://localhost:1234"),
        ("ollama", "[::1]", "http://[::1]:11434"),
        ("ollama", "https://o.example/", "https://o.example"),
    ]
    for vendor, given, upstream in cases:
        assert redirect("NAME", vendor, given) == f"{RUN}/{vendor}"
        assert daemon.begun[-1] == (vendor, upstream)
        assert capsys.readouterr().err == f"agentctx: NAME: calls go through the proxy to {upstream}\n"
    for nothing in ("", "http://127.0.0.1:18181/t/TOKEN/proxy/openai/v1"):
        assert redirect("NAME", "openai", nothing) is None
    assert redirect("NAME", "ollama", "") is None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("url", ["https://u:secret@gw.example/v1?key=secret#secret", "https://[::1", "x"])
def test_a_base_url_that_is_refused_stays(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert Redirect(Daemon(refuses=True).begin_run, PROXY)("NAME", "openai", url) == url
    said = capsys.readouterr().err
    assert said.startswith("agentctx: NAME: calls go to ")
    assert "Not you." in said
    assert "secret" not in said
    assert said.count("\n") == 1


def test_programs_with_settings_of_their_own_keep_their_upstream(tmp_path: Path) -> None:
    daemon = Daemon()
    redirect = Redirect(daemon.begin_run, PROXY)
    (tmp_path / "config.toml").write_text('openai_base_url = "https://codex.example/v1"')
    codex = wrapped(["codex"], BASE, {}, {"CODEX_HOME": str(tmp_path)}, redirect)
    assert codex.command[2] == f'openai_base_url="{RUN}/openai"'
    (tmp_path / "config.toml").write_text("[")
    present = {"CODEX_HOME": str(tmp_path), "OPENAI_BASE_URL": "https://env.example/v1"}
    wrapped(["codex"], BASE, {}, present, redirect)
    content = {"provider": {"anthropic": {"options": {"baseURL": "https://code.example/v1"}}}}
    opencode = wrapped(["opencode"], BASE, {}, {"OPENCODE_CONFIG_CONTENT": json.dumps(content)}, redirect)
    assert f'"baseURL": "{RUN}/anthropic"' in opencode.variables["OPENCODE_CONFIG_CONTENT"]
    present = {
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_PROVIDER_API_KEY": "k",
        "COPILOT_PROVIDER_BASE_URL": "https://pilot.example",
    }
    copilot = wrapped(["copilot"], BASE, {}, present, redirect)
    assert copilot.variables == {"COPILOT_PROVIDER_BASE_URL": f"{RUN}/anthropic"}
    assert daemon.begun == [
        ("openai", "https://codex.example/v1"),
        ("openai", "https://env.example/v1"),
        ("anthropic", "https://code.example/v1"),
        ("anthropic", "https://pilot.example"),
    ]
