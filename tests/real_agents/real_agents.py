"""The real programs: how to set up and call each, and how its model calls one of our tools."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Final

from agentctx_testing.fake_provider.answers import ToolCall
from tests.real_agents.wires import Body

NODE_MODULES: Final = Path(
    os.environ.get("AGENTCTX_AGENTS") or Path(__file__).parents[2] / ".agents" / "node_modules"
)
"""The folder into which `make test-agents` installs them."""


_DIRECT: Final = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "")
"""For agents that would call local addresses through a proxy, too."""


class RealAgent(ABC):
    """A program. `name` is its name in `agentctx connect`."""

    name: ClassVar[str]
    program: ClassVar[str]
    """Its path in `NODE_MODULES`; a glob, because binaries are named after the platform."""
    vendor: ClassVar[str]
    """The API it speaks: a dialect of the fake provider."""
    hook_role: ClassVar[str | None] = None
    """The role, in a request, of what our hook adds; None: `connect` writes no hook for it."""
    shell: ClassVar[tuple[str, str]]
    """The tool that runs a shell command, and its argument for the command."""
    compacting_prompt: ClassVar[str] = "Go on."
    """The prompt that compacts a long conversation in a non-interactive run."""
    summarizes: ClassVar[bool] = True
    """Whether its compaction leaves a readable summary."""
    tells_before: ClassVar[bool] = True
    tells_after: ClassVar[bool] = True
    """Whether its model is told what a hook adds before a tool call, and after one that failed."""
    restarts: ClassVar[bool] = False
    """Whether its compaction in a non-interactive run drops prompts, and a hook starts the session again."""
    can_be_wrapped: ClassVar[bool] = True
    """Whether its base URL can be set by an environment variable."""
    can_resume: ClassVar[bool] = True
    """Whether a session can be resumed without a terminal."""
    keeps_prefix: ClassVar[bool] = True
    """Whether a resumed conversation begins with what was sent before."""

    @classmethod
    def path(cls) -> Path | None:
        """The program; None if it is not installed."""
        return next(iter(sorted(NODE_MODULES.glob(cls.program), reverse=True)), None)

    @abstractmethod
    def settle(self, home: Path, vendor_url: str | None) -> dict[str, str]:
        """Write its settings into a home, before `connect`; return its environment variables.

        `vendor_url` is the base URL that a client of `vendor` takes; None keeps the vendor's own.
        """

    @abstractmethod
    def arguments(self, prompt: str, *, resumes: bool = False) -> list[str]:
        """The arguments of one non-interactive turn: of a new session, or of the latest one."""

    def narrow(self, home: Path) -> None:  # noqa: B027 - a prompt is enough for most
        """Give its model so small a context that the next turn of a long conversation compacts it."""

    @abstractmethod
    def tool(self, name: str) -> str:
        """The name of one of our tools for its model."""

    def call(self, name: str, **arguments: Any) -> ToolCall:
        """A call of one of our tools, as its model makes it."""
        return ToolCall(name=self.tool(name), arguments=arguments)

    def run(self, command: str) -> ToolCall:
        """A call of its own shell, as its model makes it. The id contains the file it is about."""
        name, argument = self.shell
        given = {argument: command, "description": "Runs it"}
        file = command.rsplit(maxsplit=1)[-1].partition(".")[0]
        return ToolCall(name=name, arguments=given, id=f"call_{file}")

    def is_turn(self, body: Body) -> bool:
        """Whether a request belongs to the conversation, rather than generating a title or topic."""
        return bool(body.get("tools"))


class Codex(RealAgent):
    """Speaks Responses; a hook's context is a developer message."""

    name = "codex"
    program = ".bin/codex"
    vendor = "openai"
    hook_role = "developer"
    tells_after = False  # its shell tool reports an output without the exit code
    shell = ("exec_command", "cmd")

    def settle(self, home: Path, vendor_url: str | None) -> dict[str, str]:
        if vendor_url is None:
            (home / ".codex").mkdir()
            return {"CODEX_API_KEY": "x"}
        lines = ['model = "some-model"', 'model_provider = "fake"', "[model_providers.fake]", 'name = "fake"']
        lines += [f'base_url = "{vendor_url}"', 'wire_api = "responses"', 'env_key = "OPENAI_API_KEY"']
        _write(home / ".codex/config.toml", "\n".join([*lines, "request_max_retries = 0", ""]))
        return {"OPENAI_API_KEY": "x"}

    def narrow(self, home: Path) -> None:
        config = home / ".codex/config.toml"
        config.write_text(f"model_auto_compact_token_limit = 1000\n{config.read_text('utf-8')}", "utf-8")

    def arguments(self, prompt: str, *, resumes: bool = False) -> list[str]:
        # A user reviews hooks once, with /hooks, which is not possible here.
        words = ["exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
        words.append("--dangerously-bypass-approvals-and-sandbox")  # it does not find its helper below /tmp
        return [*words, *(["resume", "--last"] if resumes else []), prompt]

    def is_turn(self, body: Body) -> bool:
        """It makes no other requests; for some models its tools are among the items of the input."""
        return "input" in body

    def tool(self, name: str) -> str:
        return f"mcp__agentctx__{name}"

    def call(self, name: str, **arguments: Any) -> ToolCall:
        return ToolCall(name=name, namespace="mcp__agentctx", arguments=arguments)


class Opencode(RealAgent):
    """Speaks the API of its provider's package, here Anthropic's Messages."""

    name = "opencode"
    program = "opencode-linux-*/bin/opencode"
    vendor = "anthropic"
    hook_role = "user"
    tells_before = False
    shell = ("bash", "command")

    def settle(self, home: Path, vendor_url: str | None) -> dict[str, str]:
        offline = {
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "npm_config_fetch_retries": "0",  # with a plugin it requests packages on each start
        }
        if vendor_url is None:
            own = {"model": "anthropic/claude-sonnet-4-5", "small_model": "anthropic/claude-haiku-4-5"}
            _write(home / ".config/opencode/opencode.json", json.dumps(own))
            return {"ANTHROPIC_API_KEY": "x", **offline}
        options = {"baseURL": f"{vendor_url}/v1", "apiKey": "x"}
        models = {"m": {"tool_call": True, "limit": {"context": 200_000, "output": 8_000}}}
        provider = {"npm": "@ai-sdk/anthropic", "options": options, "models": models}
        settings = {"model": "fake/m", "small_model": "fake/m", "provider": {"fake": provider}}
        _write(home / ".config/opencode/opencode.json", json.dumps(settings))
        return offline

    def narrow(self, home: Path) -> None:
        config = home / ".config/opencode/opencode.json"
        settings = json.loads(config.read_bytes())
        # Its instructions and tools fit; with a long prompt they do not.
        settings["provider"]["fake"]["models"]["m"]["limit"] = {"context": 16_000, "output": 1_000}
        config.write_text(json.dumps(settings), "utf-8")

    def arguments(self, prompt: str, *, resumes: bool = False) -> list[str]:
        return ["run", *(["--continue"] if resumes else []), prompt]

    def tool(self, name: str) -> str:
        return f"agentctx_{name}"


class ClaudeCode(RealAgent):
    """Speaks Messages; a hook's context is a system message between the turns."""

    name = "claude-code"
    program = "@anthropic-ai/claude-code-linux-*/claude"
    vendor = "anthropic"
    hook_role = "system"
    shell = ("Bash", "command")
    compacting_prompt = "/compact"
    restarts = True

    def settle(self, home: Path, vendor_url: str | None) -> dict[str, str]:
        (home / ".claude").mkdir()
        return {
            **({"ANTHROPIC_BASE_URL": vendor_url} if vendor_url else {}),
            "ANTHROPIC_API_KEY": "x",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def arguments(self, prompt: str, *, resumes: bool = False) -> list[str]:
        allowed = ["--allowedTools", "mcp__plugin_agentctx_agentctx,Bash"]
        return [*(["-c"] if resumes else []), "-p", prompt, *allowed]

    def tool(self, name: str) -> str:
        return f"mcp__plugin_agentctx_agentctx__{name}"


class GeminiCli(RealAgent):
    """Speaks Gemini's API; a hook's context is part of the user's turn."""

    name = "gemini"
    summarizes = False
    program = ".bin/gemini"
    vendor = "google"
    hook_role = "user"
    tells_before = False
    shell = ("run_shell_command", "command")

    def settle(self, home: Path, vendor_url: str | None) -> dict[str, str]:
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        _write(home / ".gemini/settings.json", json.dumps(settings))
        return {
            "GEMINI_API_KEY": "x",
            **({"GOOGLE_GEMINI_BASE_URL": vendor_url.removesuffix("/v1beta")} if vendor_url else {}),
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }

    def arguments(self, prompt: str, *, resumes: bool = False) -> list[str]:
        # Without a model it asks one which to use.
        words = ["-m", "gemini-2.5-flash", "--approval-mode", "yolo"]
        return [*words, *(["--resume", "latest"] if resumes else []), "-p", prompt]

    def tool(self, name: str) -> str:
        return f"mcp_agentctx_{name}"


class QwenCode(RealAgent):
    """Speaks Chat Completions; a hook's context is part of the user's turn."""

    name = "qwen"
    program = ".bin/qwen"
    vendor = "openai"
    hook_role = "user"
    tells_before = False
    tells_after = False
    shell = ("run_shell_command", "command")
    compacting_prompt = "/compress"
    keeps_prefix = False  # it moves its own reminders

    def settle(self, home: Path, vendor_url: str | None) -> dict[str, str]:
        own_memory = {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}
        settings = {"security": {"auth": {"selectedType": "openai"}}, "memory": own_memory}
        _write(home / ".qwen/settings.json", json.dumps(settings))
        given = {"OPENAI_BASE_URL": vendor_url} if vendor_url else {}
        return {**given, "OPENAI_API_KEY": "x", "OPENAI_MODEL": "some-model", **_DIRECT}

    def arguments(self, prompt: str, *, resumes: bool = False) -> list[str]:
        return ["--approval-mode", "yolo", *(["--continue"] if resumes else []), prompt]

    def tool(self, name: str) -> str:
        return f"mcp__agentctx__{name}"


class CopilotCli(RealAgent):
    """Speaks Messages to a custom provider; a hook's context is part of the user's turn."""

    name = "copilot"
    program = ".bin/copilot"
    vendor = "anthropic"
    hook_role = "user"
    shell = ("bash", "command")
    compacting_prompt = "/compact"

    def settle(self, home: Path, vendor_url: str | None) -> dict[str, str]:
        (home / ".copilot").mkdir()
        return {
            "COPILOT_PROVIDER_BASE_URL": vendor_url or "https://api.anthropic.com",
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "claude-sonnet-4.5",
            "COPILOT_OFFLINE": "true",
        }

    def arguments(self, prompt: str, *, resumes: bool = False) -> list[str]:
        return [*(["--continue"] if resumes else []), "-p", prompt, "--allow-all-tools"]

    def tool(self, name: str) -> str:
        return f"agentctx-{name}"


class Pi(RealAgent):
    """Speaks Messages to a custom provider; a hook's context is a message of the user."""

    name = "pi"
    program = ".bin/pi"
    vendor = "anthropic"
    hook_role = "user"
    tells_before = False
    shell = ("bash", "command")
    can_be_wrapped = False

    def settle(self, home: Path, vendor_url: str | None) -> dict[str, str]:
        model = {"id": "m", "contextWindow": 200_000, "maxTokens": 8_000}
        provider = {"baseUrl": vendor_url, "api": "anthropic-messages", "apiKey": "x", "models": [model]}
        _write(home / ".pi/agent/models.json", json.dumps({"providers": {"fake": provider}}))
        _write(home / ".pi/agent/settings.json", json.dumps({"defaultProvider": "fake", "defaultModel": "m"}))
        return {"PI_OFFLINE": "1"}

    def narrow(self, home: Path) -> None:
        models = home / ".pi/agent/models.json"
        models.write_text(models.read_text("utf-8").replace("200000", "8000"), "utf-8")
        settings = home / ".pi/agent/settings.json"
        compaction = {"compaction": {"reserveTokens": 1_000, "keepRecentTokens": 100}}
        settings.write_text(json.dumps(json.loads(settings.read_bytes()) | compaction), "utf-8")

    def arguments(self, prompt: str, *, resumes: bool = False) -> list[str]:
        return ["-p", *(["--continue"] if resumes else []), prompt]

    def tool(self, name: str) -> str:
        return f"mcp__agentctx__{name}"


class Cline(RealAgent):
    """Speaks Messages; a hook's context is a message of the user."""

    name = "cline"
    program = ".bin/cline"
    vendor = "openai"
    hook_role = "user"
    shell = ("run_commands", "commands")
    can_be_wrapped = False
    can_resume = False
    summarizes = False

    def settle(self, home: Path, vendor_url: str | None) -> dict[str, str]:
        name = "openai-compatible"
        settings = {"provider": name, "apiKey": "x", "model": "some-model", "baseUrl": vendor_url}
        provider = {"settings": settings, "updatedAt": "2026-11-26T00:00:00.000Z", "tokenSource": "manual"}
        providers = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: provider}}
        _write(home / ".cline/data/settings/providers.json", json.dumps(providers))
        return {"CLINE_NO_AUTO_UPDATE": "1", "CLINE_SESSION_BACKEND_MODE": "local", **_DIRECT}

    def arguments(self, prompt: str, *, resumes: bool = False) -> list[str]:
        assert not resumes
        return [prompt]

    def tool(self, name: str) -> str:
        return f"agentctx__{name}"


_AGENTS: Final = (Codex, Opencode, ClaudeCode, GeminiCli, QwenCode, CopilotCli, Pi, Cline)
REAL_AGENTS: Final = {agent.name: agent for agent in _AGENTS}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
