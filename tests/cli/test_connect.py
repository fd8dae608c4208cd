"""`agentctx connect` with a separate home per test."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctx.agents.connect.agents import AGENTS, Launch
from agentctx.agents.connect.json_text import parse
from agentctx.cli import connect as command
from agentctx.cli import import_, import_from, service
from agentctx.cli.app import run, with_modes
from agentctx.wire import RememberMode
from tests.amount import examples
from tests.cli.terminal import Terminal, on_a_terminal

Connect = Callable[..., int]
CODEX = 'model = "gpt"  # mine\n\n[mcp_servers.docs]\ncommand = "docs"\n'
GEMINI = '{"theme": "x", "hooks": {"BeforeAgent": [{"hooks": [{"type": "command", "command": "mine"}]}]}}'
ZED = '// Zed settings\n{\n  "vim_mode": true, // yes\n}\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    for variable in list(os.environ):
        if variable.startswith("XDG_") or variable in {"CODEX_HOME", "CLAUDE_CONFIG_DIR"}:
            monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(command, "_checked", lambda *_: 0)
    monkeypatch.setattr(import_from, "found", list)
    return home


@pytest.fixture
def connect(home: Path) -> Connect:
    return lambda *args: run(["--socket", "/run/a.sock", "connect", "--yes", *args])


def settings_of(home: Path) -> dict[str, bytes]:
    """Return every file except our bookkeeping."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and "state" not in path.parts
    }


def write(home: Path, name: str, text: str) -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_installed_agents_are_found(connect: Connect, home: Path) -> None:
    (home / ".gemini").mkdir()
    (home / ".cursor").mkdir()
    assert connect() == 0
    assert sorted(settings_of(home)) == [".cursor/hooks.json", ".cursor/mcp.json", ".gemini/settings.json"]


def test_connect_and_undo_leave_no_trace_for_any_agent(connect: Connect, home: Path) -> None:
    write(home, ".codex/config.toml", CODEX)
    write(home, ".gemini/settings.json", GEMINI)
    write(home, ".config/zed/settings.json", ZED)
    before = settings_of(home)
    folders = {path for path in home.rglob("*") if path.is_dir()}

    assert connect(*AGENTS) == 0
    written = settings_of(home)
    assert len(written) >= 14
    assert connect(*AGENTS) == 0
    assert settings_of(home) == written

    assert connect("--undo") == 0
    assert settings_of(home) == before
    assert {path for path in home.rglob("*") if path.is_dir() and ".local" not in path.parts} == folders
    assert not [path for path in (home / ".local").rglob("*") if path.is_file()]


def test_entries_start_this_program_with_its_socket(connect: Connect, home: Path) -> None:
    connect(*AGENTS)
    codex = tomllib.loads((home / ".codex/config.toml").read_text("utf-8"))["mcp_servers"]["agentctx"]
    assert Path(codex["command"]).is_absolute()
    assert codex["args"][-5:] == ["mcp", "--socket", "/run/a.sock", "--agent", "codex"]
    plugin = home / ".claude/skills/agentctx"
    assert json.loads((plugin / ".claude-plugin/plugin.json").read_bytes())["name"] == "agentctx"
    hooks = json.loads((plugin / "hooks/hooks.json").read_bytes())["hooks"]
    assert sorted(hooks) == ["PostToolUseFailure", "PreToolUse", "SessionStart", "UserPromptSubmit"]
    assert "hook SessionStart --client claude-code" in hooks["SessionStart"][0]["hooks"][0]["command"]
    assert hooks["UserPromptSubmit"][0]["hooks"][0]["server"] == "plugin:agentctx:agentctx"
    assert "agentctx" in json.loads((home / ".config/Code/User/mcp.json").read_bytes())["servers"]


def test_turns_are_remembered_only_on_request(connect: Connect, home: Path) -> None:
    hooks = home / ".codex/hooks.json"
    connect("codex", "--remember")
    remembering = json.loads(hooks.read_bytes())["hooks"]
    assert remembering.pop("Stop")
    assert remembering.pop("PreCompact")
    connect("codex")
    assert json.loads(hooks.read_bytes())["hooks"] == remembering, "what changes has to be approved again"
    assert sorted(remembering) == ["PostToolUse", "PreToolUse", "SessionStart", "UserPromptSubmit"]
    connect("codex", "--undo")
    assert settings_of(home) == {}


@pytest.mark.parametrize("mode", ["review", "auto"])
def test_the_mode_of_captures_is_in_each_command_that_saves(connect: Connect, home: Path, mode: str) -> None:
    connect("codex", "claude-code", f"--remember={mode}")
    hooks = json.loads((home / ".codex/hooks.json").read_bytes())["hooks"]
    (stop,) = hooks["Stop"][0]["hooks"]
    words = stop["command"].split()
    assert words[-1] == ("--remember" if mode == "auto" else "--remember=review")
    claude = json.loads((home / ".claude/skills/agentctx/hooks/hooks.json").read_bytes())["hooks"]
    (group,) = claude["PostCompact"]
    assert group["hooks"][0]["input"]["remember"] == (True if mode == "auto" else "review")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["connect", "--remember", "codex"], ["connect", "--remember=auto", "codex"]),
        (["hook", "Stop", "--remember=review"], ["hook", "Stop", "--remember=review"]),
        (["wrap", "--", "connect", "--remember"], ["wrap", "--", "connect", "--remember"]),
    ],
)
def test_a_bare_remember_means_auto(given: list[str], read: list[str]) -> None:
    assert with_modes(given) == read


@pytest.mark.parametrize("remember", [None, "auto"])
def test_remembering_is_offered_unless_it_was_chosen(
    monkeypatch: pytest.MonkeyPatch, *, remember: RememberMode | None
) -> None:
    monkeypatch.setattr(command, "exchange", lambda _: None)
    said: list[str] = []
    assert command._checked(Launch(("agentctx",), "/run/a.sock", remember), said.append) == 0
    assert ("connect --remember" in "".join(said)) is (remember is None)


def test_claude_code_reports_turns_through_its_server(connect: Connect, home: Path) -> None:
    connect("claude-code", "--remember")
    hooks = json.loads((home / ".claude/skills/agentctx/hooks/hooks.json").read_bytes())["hooks"]
    inputs = {event: group["hooks"][0].get("input") for event, (group,) in hooks.items()}
    assert inputs["Stop"]["last_assistant_message"] == "${last_assistant_message}"
    assert inputs["Stop"]["remember"] is True
    assert inputs["PostCompact"]["compact_summary"] == "${compact_summary}"
    assert inputs["Stop"]["prompt_id"] == "${prompt_id}"
    saving = {"PostCompact", "PreCompact", "SessionEnd", "Stop"}
    assert inputs.keys() == {"PostToolUseFailure", "PreToolUse", "SessionStart", "UserPromptSubmit"} | saving


def test_codex_hooks_use_its_server_and_fields_that_always_exist(connect: Connect, home: Path) -> None:
    connect("codex", "--remember")
    hooks = json.loads((home / ".codex/hooks.json").read_bytes())["hooks"]
    ((prompt,), (stop,)) = (
        group["hooks"] for event in ("UserPromptSubmit", "Stop") for group in hooks[event]
    )
    assert (prompt["type"], prompt["server"], prompt["tool"]) == ("mcp_tool", "agentctx", "hook")
    assert prompt["input"] == {
        "event": "UserPromptSubmit",
        "session_id": "${session_id}",
        "prompt": "${prompt}",
    }
    assert stop["command"].endswith("--remember")


CURSOR_HOOKS = '{"version": 1, "hooks": {"sessionStart": [{"command": "./mine.sh"}]}}\n'


@pytest.mark.parametrize("before", [None, "{}", CURSOR_HOOKS, '{\n\t"version": 2\n}'])
def test_cursor_hooks_coexist_with_the_users_own(connect: Connect, home: Path, before: str | None) -> None:
    path = home / ".cursor/hooks.json"
    if before is not None:
        write(home, ".cursor/hooks.json", before)
    connect("cursor", "--remember")
    written = json.loads(path.read_bytes())
    assert written["version"] == json.loads(before or "{}").get("version", 1)
    assert [list(hook) for hook in written["hooks"]["afterAgentResponse"]] == [["command"]]
    assert "hook sessionStart --client cursor" in written["hooks"]["sessionStart"][-1]["command"]
    once = path.read_bytes()
    connect("cursor", "--remember")
    assert path.read_bytes() == once
    connect("cursor", "--undo")
    assert (path.read_text("utf-8") if path.exists() else None) == before


def test_a_hook_that_the_user_added_for_cursor_keeps_its_file_readable(connect: Connect, home: Path) -> None:
    connect("cursor")
    path = home / ".cursor/hooks.json"
    hooks = json.loads(path.read_bytes())
    hooks["hooks"]["sessionStart"].append({"command": "./mine.sh"})
    path.write_text(json.dumps(hooks), "utf-8")
    connect("cursor", "--undo")
    assert json.loads(path.read_bytes()) == {
        "version": 1,
        "hooks": {"sessionStart": [{"command": "./mine.sh"}]},
    }


def test_later_edits_are_kept(connect: Connect, home: Path) -> None:
    codex = write(home, ".codex/config.toml", CODEX)
    gemini = write(home, ".gemini/settings.json", GEMINI)
    connect("codex", "gemini")
    codex.write_text(codex.read_text("utf-8") + "\n[later]\na = 1\n", "utf-8")
    gemini.write_text(gemini.read_text("utf-8").replace('"theme": "x"', '"theme": "y"'), "utf-8")

    assert connect("--undo") == 0
    assert tomllib.loads(codex.read_text("utf-8")) == tomllib.loads(CODEX) | {"later": {"a": 1}}
    assert "# mine" in codex.read_text("utf-8")
    assert json.loads(gemini.read_bytes()) == json.loads(GEMINI) | {"theme": "y"}


def test_user_additions_to_our_entries_stay_until_undo(connect: Connect, home: Path) -> None:
    """As our pages suggest for Gemini CLI, and as Codex writes when a tool is always approved."""
    connect("codex", "gemini")
    gemini, codex = home / ".gemini/settings.json", home / ".codex/config.toml"
    gemini.write_text(
        gemini.read_text("utf-8").replace('"command":', '"trust": true,\n      "command":', 1), "utf-8"
    )
    approved = '\n[mcp_servers.agentctx.tools.save]\napproval_mode = "approve"\n'
    codex.write_text(codex.read_text("utf-8") + "startup_timeout_sec = 20\n" + approved, "utf-8")
    edited = settings_of(home)
    assert connect("codex", "gemini") == 0
    assert settings_of(home) == edited

    assert run(["--socket", "/run/b.sock", "connect", "--yes", "--remember", "codex", "gemini"]) == 0
    assert json.loads(gemini.read_bytes())["mcpServers"]["agentctx"]["trust"] is True
    server = tomllib.loads(codex.read_text("utf-8"))["mcp_servers"]["agentctx"]
    assert (server["startup_timeout_sec"], server["tools"]["save"]) == (20, {"approval_mode": "approve"})
    for path in (gemini, codex):
        assert "/run/b.sock" in path.read_text("utf-8")
        assert "/run/a.sock" not in path.read_text("utf-8")

    assert connect("--undo") == 0
    assert settings_of(home) == {}


LAYOUTS = [
    '\ufeff{\r\n\t"theme": "x"\r\n}\r\n',
    '{\r\n  "mcpServers": {\r\n    "docs": {"command": "d"}\r\n  }\r\n}',
    '{\n\t"hooks": {\n\t\t"BeforeAgent": [\n\t\t]\n\t}\n}\n\n',
    '{"a":1,"hooks":{"BeforeAgent":[{"hooks":[{"type":"command","command":"mine"}]}]}}',
]


@pytest.mark.parametrize("text", LAYOUTS)
def test_the_layout_of_a_file_is_kept_and_restored(connect: Connect, home: Path, text: str) -> None:
    path = home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    assert connect("gemini") == 0
    written = path.read_bytes()
    assert connect("--undo") == 0
    assert path.read_bytes() == text.encode()

    assert connect("gemini") == 0
    path.write_bytes(written + b"// mine")  # an edit, so that our part has to be located
    assert connect("--undo") == 0
    assert path.read_bytes() == text.encode() + b"// mine"
    assert written.startswith(b"\xef\xbb\xbf") == text.startswith("\ufeff")
    assert (b"\n" in written.replace(b"\r\n", b"")) == ("\r\n" not in text)


@pytest.mark.parametrize(
    "header", ['[mcp_servers."agentctx"]', "[ 'mcp_servers' . agentctx ]  # ours", "\t[mcp_servers.agentctx]"]
)
def test_our_table_is_found_in_any_spelling(connect: Connect, home: Path, header: str) -> None:
    text = f'{header}\ncommand = "/old/agentctx"\nargs = [\n  "mcp",\n]\nenabled = false\n\n[later]\na = 1\n'
    path = write(home, ".codex/config.toml", text)
    assert connect("codex") == 0
    read = tomllib.loads(path.read_text("utf-8"))
    assert read["mcp_servers"]["agentctx"]["args"][-5:] == [
        "mcp",
        "--socket",
        "/run/a.sock",
        "--agent",
        "codex",
    ]
    assert (read["mcp_servers"]["agentctx"]["enabled"], read["later"]) == (False, {"a": 1})
    assert header in path.read_text("utf-8")


def test_a_hook_that_the_user_added_to_our_group_stays(connect: Connect, home: Path) -> None:
    connect("codex")
    path = home / ".codex/hooks.json"
    hooks = json.loads(path.read_bytes())
    hooks["hooks"]["UserPromptSubmit"][0]["hooks"].append({"type": "command", "command": "mine"})
    path.write_text(json.dumps(hooks), "utf-8")
    connect("codex", "--undo")
    assert json.loads(path.read_bytes()) == {
        "hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "mine"}]}]}
    }


def test_the_preview_changes_nothing(
    connect: Connect, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home, ".codex/config.toml", CODEX)
    before = settings_of(home)
    assert connect("codex", "--dry-run") == 0
    assert settings_of(home) == before
    shown = capsys.readouterr().out
    assert "+[mcp_servers.agentctx]" in shown
    assert ' command = "docs"' in shown


@pytest.mark.parametrize(("mode", "changed"), [("--dry-run", False), ("--yes", True)])
def test_changes_as_json(mode: str, changed: bool, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--socket", "/run/a.sock", "connect", "codex", "--json", mode]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["agents"], found["changed"]) == (["codex"], changed)
    assert (home / ".codex/config.toml").exists() == changed
    first = found["files"][0]
    assert (first["path"], first["action"]) == (str(home / ".codex/config.toml"), "write")


def test_declining_changes_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    monkeypatch.setattr("agentctx.cli.consent.can_prompt", lambda: True)
    assert run(["connect", "codex"]) == 1
    assert settings_of(home) == {}


@pytest.fixture
def at_a_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Terminal]:
    """Answer the questions of `agentctx connect`, with a systemd of the user; return what was asked."""
    manager = home / "run/systemd/private"
    manager.parent.mkdir(parents=True)
    manager.touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "run"))
    for variable in [name for name in os.environ if name.startswith("AGENTCTX_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setattr(service, "BOOTED", home / "none")
    return lambda answers: on_a_terminal(monkeypatch, answers)


def test_a_table_comes_before_the_diff_which_is_shown_on_request(
    at_a_terminal: Callable[[str], Terminal], capsys: pytest.CaptureFixture[str]
) -> None:
    at_a_terminal("n\n")
    assert run(["connect", "codex", "zed"]) == 1
    shown = capsys.readouterr().out
    rows = [line.split(maxsplit=1) for line in shown.splitlines()[:4]]
    assert rows[0] == ["AGENT", "GETS          FILE"]
    assert rows[1] == ["Codex", "tools, hooks  ~/.codex/config.toml"]
    assert rows[2] == ["~/.codex/hooks.json"]
    assert rows[3] == ["Zed", "tools         ~/.config/zed/settings.json"]
    assert "No daemon answers" in shown, "before anything is written"
    assert "@@" not in shown

    at_a_terminal("d\nn\n")
    assert run(["connect", "codex"]) == 1
    assert "@@" in capsys.readouterr().out
    at_a_terminal("n\n")
    assert run(["connect", "codex", "--diff"]) == 1
    assert "@@" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "installed"), [("y", True), ("n", False)])
def test_the_start_at_login_is_offered_at_the_end(
    at_a_terminal: Callable[[str], Terminal],
    home: Path,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    installed: bool,
) -> None:
    asked = at_a_terminal(f"y\n{answer}\n")
    assert run(["connect", "codex"]) == 0
    assert "Start the daemon now and at every login?" in asked.written()
    assert (home / ".config/systemd/user/agentctx.service").exists() == installed
    capsys.readouterr()
    at_a_terminal("y\n")
    assert run(["connect", "--undo"]) == 0
    assert ("service uninstall --user" in capsys.readouterr().out) == installed


@pytest.mark.parametrize(("answer", "wanted"), [("", False), ("y", True)])
def test_memories_of_other_programs_are_offered(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    wanted: bool,
) -> None:
    sessions = import_from.FoundMemory("claude-code", "past sessions of Claude Code", 2_140)
    notes = import_from.FoundMemory("obsidian", "Obsidian", 1)
    monkeypatch.setattr(import_from, "found", lambda: [sessions, notes])
    imported: list[str] = []

    def import_memory(_: object, kind: str, **__: object) -> None:
        imported.append(kind)
        raise typer.Exit(1)  # one line of it was damaged

    monkeypatch.setattr(import_, "import_memory", import_memory)
    asked = on_a_terminal(monkeypatch, f"y\n{answer}\n")
    assert run(["--socket", "/run/a.sock", "connect", "codex"]) == 0
    shown = capsys.readouterr().out
    assert "past sessions of Claude Code: 2,140 files not imported yet" in shown
    assert "`agentctx import --from claude-code --dry-run`" in shown
    assert "Import all of this now? [y/N]" in asked.written()
    assert imported == (["claude-code", "obsidian"] if wanted else [])
    for quiet in (["--yes", "--json"], ["--yes", "--dry-run"], ["--yes", "--undo"]):
        assert run(["connect", "codex", *quiet]) == 0
        assert "not imported yet" not in capsys.readouterr().out


def test_without_a_user_to_ask_the_next_step_is_named(
    at_a_terminal: Callable[[str], Terminal], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del at_a_terminal
    assert run(["connect", "codex", "--yes"]) == 0
    assert "next  Start the daemon at login: `agentctx service install --user`" in capsys.readouterr().out
    (home / "run/systemd/private").unlink()
    assert run(["connect", "zed", "--yes"]) == 0
    assert "`nohup agentctx serve >/dev/null 2>&1 &`" in capsys.readouterr().out
    assert run(["--socket", "/run/a.sock", "connect", "pi", "--yes"]) == 0
    assert "`nohup agentctx serve --socket /run/a.sock" in capsys.readouterr().out


def test_nothing_is_written_if_consent_is_impossible(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["connect", "codex"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert settings_of(home) == {}


def test_next_steps_cover_only_written_agents(connect: Connect, capsys: pytest.CaptureFixture[str]) -> None:
    connect("codex")
    assert "/hooks" in capsys.readouterr().out
    connect("codex")
    assert capsys.readouterr().out == "Codex: already connected\n"


def test_a_link_out_of_the_home_is_not_followed(connect: Connect, home: Path, tmp_path: Path) -> None:
    shared = write(tmp_path, "shared/settings.json", "{}")
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").symlink_to(shared)
    assert connect("gemini") == 1
    assert shared.read_text("utf-8") == "{}"


def test_a_link_inside_the_home_stays_a_link(connect: Connect, home: Path) -> None:
    real = write(home, "dotfiles/gemini.json", "{}")
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").symlink_to(real)
    assert connect("gemini") == 0
    assert (home / ".gemini/settings.json").is_symlink()
    assert "agentctx" in json.loads(real.read_bytes())["mcpServers"]
    assert connect("--undo") == 0
    assert real.read_text("utf-8") == "{}"


def test_the_mode_of_a_file_is_kept(connect: Connect, home: Path) -> None:
    path = write(home, ".gemini/settings.json", "{}")
    path.chmod(0o640)
    connect("gemini")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_project_gets_the_tools(connect: Connect, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = home / "shop"
    project.mkdir()
    monkeypatch.chdir(project)
    assert connect("claude-code", "codex", "--project") == 0
    assert sorted(settings_of(home)) == ["shop/.codex/config.toml", "shop/.mcp.json"]
    assert connect("--undo", "--project") == 0
    assert settings_of(home) == {}


def test_user_and_project_settings_are_undone_separately(
    connect: Connect, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect("codex")
    of_user = settings_of(home)
    for name in ("shop", "bank"):
        (home / name).mkdir()
        monkeypatch.chdir(home / name)
        connect("codex", "--project")
    assert connect("--undo", "--project") == 0
    assert settings_of(home).keys() == {*of_user, "shop/.codex/config.toml"}
    assert connect("--undo") == 0
    assert settings_of(home).keys() == {"shop/.codex/config.toml"}
    monkeypatch.chdir(home / "shop")
    assert connect("--undo", "--project") == 0
    assert settings_of(home) == {}


VALUES = st.recursive(
    st.none() | st.booleans() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "theme": VALUES,
        "mcpServers": st.dictionaries(st.sampled_from(["docs", "web"]), VALUES, max_size=2),
        "hooks": st.dictionaries(
            st.sampled_from(["BeforeAgent", "Other"]), st.lists(VALUES, max_size=2), max_size=2
        ),
    },
)


@given(before=SETTINGS, layout=st.sampled_from([None, 2, "\t"]), added=st.booleans())
@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_settings_are_restored(
    connect: Connect, home: Path, before: object, layout: int | str | None, added: bool
) -> None:
    path = write(home, ".gemini/settings.json", original := json.dumps(before, indent=layout))
    assert connect("gemini") == 0
    connected = path.read_text("utf-8")
    assert connect("gemini") == 0
    assert path.read_text("utf-8") == connected
    if added:
        path.write_text(connected.rstrip() + " \n", "utf-8")
    assert connect("gemini", "--undo") == 0
    now = path.read_text("utf-8")
    if added:
        assert parse(now).value == json.loads(original)
    else:
        assert now == original
