"""The handler as agents start it, with a real daemon, none, or one that never answers."""

import json
import os
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentctx.agents.hooks import hook as handler
from tests.agents.bridge_process import stripped_environment
from tests.agents.conftest import WITHOUT_MODEL
from tests.agents.transcribed import Step, transcript
from tests.end_to_end.daemon_process import DaemonProcess

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[3]
TURN = "The cache is 4 GB because of the index."
RECORDED = Path(__file__).parents[1] / "data/transcripts"


def hook(tmp_path: Path, event: str, payload: object, *args: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "agentctx", "hook", event, *args],
        input=payload if isinstance(payload, bytes) else json.dumps(payload).encode(),
        capture_output=True,
        env=stripped_environment(tmp_path),
        cwd=tmp_path,
        timeout=60,
        check=False,
    )


def context_of(done: subprocess.CompletedProcess[bytes]) -> str:
    assert (done.returncode, done.stderr) == (0, b"")
    answer: dict[str, Any] = json.loads(done.stdout)
    return str(answer["hookSpecificOutput"]["additionalContext"])


def test_the_session_begins_with_the_projects_knowledge(daemon: DaemonProcess, tmp_path: Path) -> None:
    at = ("--client", "claude-code", "--socket", str(daemon.socket))
    assert hook(tmp_path, "SessionStart", {"cwd": str(tmp_path)}, *at).stdout == b""
    with daemon.client() as client:
        client.save_knowledge("deploys", "We deploy on Tuesdays: project rules.", category="rule")
        client.save_knowledge("other", "Another project's rules.", namespace="other")
    block = context_of(hook(tmp_path, "SessionStart", {"cwd": str(tmp_path)}, *at))
    assert "> We deploy on Tuesdays" in block
    assert "Another" not in block


def test_a_turn_is_saved_with_remember_alone(daemon: DaemonProcess, tmp_path: Path) -> None:
    payload = {"session_id": "s1", "last_assistant_message": "The staging database is restored every Monday."}
    at = ("--client", "codex", "--socket", str(daemon.socket))
    for extra, saved in ([], 0), (["--remember"], 1):
        done = hook(tmp_path, "Stop", payload, *at, *extra)
        assert (done.returncode, json.loads(done.stdout)) == (0, {})
        with daemon.client() as client:
            assert len(client.list(collections=["observation"]).entries) == saved


def test_a_turn_waits_for_a_review_and_is_counted_once_a_day(daemon: DaemonProcess, tmp_path: Path) -> None:
    payload = {"session_id": "s1", "last_assistant_message": "The staging database is restored every Monday."}
    at = ("--client", "claude-code", "--socket", str(daemon.socket))
    hook(tmp_path, "Stop", payload, *at, "--remember=review")
    with daemon.client() as client:
        assert client.list(collections=["observation"]).entries == []
        (waiting,) = client.list(waiting=True).entries
    assert waiting.quarantined == "waiting"
    start = {"session_id": "s2", "cwd": str(tmp_path), "source": "startup"}
    first, second = [hook(tmp_path, "SessionStart", start, *at).stdout for _ in range(2)]
    assert "1 memory waits for your review" in json.loads(first)["systemMessage"]
    assert b"review" not in second
    hook(tmp_path, "Stop", {**payload, "session_id": "s3"}, *at, "--remember")
    with daemon.client() as client:
        assert len(client.list(waiting=True).entries) == 2, "hooks cannot end what others asked for"


@pytest.mark.parametrize("payload", [b"", b"not json", b"[]", b'{"prompt": "How do we deploy?"}'])
def test_without_a_daemon_there_is_silence(tmp_path: Path, payload: bytes) -> None:
    at = ("--client", "codex", "--socket", str(tmp_path / "none"))
    done = hook(tmp_path, "UserPromptSubmit", payload, *at)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def without_a_daemon(tmp_path: Path, event: str, client: str, session: str) -> str:
    """What the hook prints for the agent, then for its log."""
    at = ("--client", client, "--socket", str(tmp_path / "none"))
    payload = {"session_id": session, "prompt": "How do we deploy?", "cwd": str(tmp_path)}
    done = hook(tmp_path, event, payload, *at)
    assert done.returncode == 0
    return (done.stdout + done.stderr).decode()


@pytest.mark.parametrize(
    ("client", "start", "prompt"),
    [
        ("claude-code", "SessionStart", "UserPromptSubmit"),
        ("codex", "SessionStart", "UserPromptSubmit"),
        ("gemini", "SessionStart", "BeforeAgent"),
        ("opencode", "SessionStart", "chat.message"),
    ],
)
def test_the_user_is_told_once_a_session_that_the_daemon_is_away(
    tmp_path: Path, client: str, start: str, prompt: str
) -> None:
    told = json.loads(without_a_daemon(tmp_path, start, client, "s1"))
    assert list(told) == ["systemMessage"], "the model is told nothing"
    assert f"`agentctx serve --socket {tmp_path / 'none'}`" in told["systemMessage"]
    assert without_a_daemon(tmp_path, prompt, client, "s1") == ""
    assert without_a_daemon(tmp_path, start, client, "s1") == "", "a compaction starts the session again"
    assert "systemMessage" in without_a_daemon(tmp_path, prompt, client, "s2"), "it went away meanwhile"


def test_an_agent_without_messages_to_its_user_logs_that_the_daemon_is_away(tmp_path: Path) -> None:
    assert "not running" in without_a_daemon(tmp_path, "sessionStart", "copilot", "s1")
    assert without_a_daemon(tmp_path, "userPromptSubmitted", "copilot", "s1") == ""


def test_before_a_tool_call_nobody_is_told_that_the_daemon_is_away(tmp_path: Path) -> None:
    payload = json.dumps(
        {"session_id": "s1", "tool_name": "Bash", "tool_input": {"command": "make"}}
    ).encode()
    for client in ("claude-code", "copilot"):
        at = ("--client", client, "--socket", str(tmp_path / "none"))
        done = hook(tmp_path, "PreToolUse", payload, *at)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_home_that_keeps_no_notes_repeats_nothing_in_prompts(tmp_path: Path) -> None:
    (tmp_path / ".local").touch()
    assert without_a_daemon(tmp_path, "UserPromptSubmit", "codex", "s1") == ""
    assert "systemMessage" in without_a_daemon(tmp_path, "SessionStart", "codex", "s1")


def test_a_daemon_that_never_answers_is_silence_too(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        at = ("--client", "codex", "--socket", str(path))
        done = hook(tmp_path, "UserPromptSubmit", {"prompt": "How do we deploy?"}, *at)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_stdin_that_stays_open_is_not_waited_for(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentctx", "hook", "UserPromptSubmit", "--client", "codex"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=stripped_environment(tmp_path)) as process:
        assert process.wait(60) == 0


def test_a_wrong_command_line_never_blocks_the_prompt(tmp_path: Path) -> None:
    done = hook(tmp_path, "UserPromptSubmit", {}, "--client", "nobody")
    assert done.returncode == 1
    assert b"--client" in done.stderr


def test_stdin_that_is_closed_is_an_event_without_content(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentctx", "hook", "UserPromptSubmit", "--client", "codex"]
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *command],
        capture_output=True,
        env=stripped_environment(tmp_path),
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_prompt_hook_avoids_slow_imports(tmp_path: Path) -> None:
    program = (
        "import sys; from agentctx.cli import main\n"
        "import atexit; atexit.register(lambda: sys.stderr.write(' '.join(sys.modules)))\n"
        "sys.argv[1:] = ['hook', 'UserPromptSubmit', '--client', 'codex', '--socket', '/none']\n"
        "main()"
    )
    # Without `site`, whose files import whatever the packages of an environment want.
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        input=b'{"prompt": "How do we deploy?", "cwd": "/"}',
        capture_output=True,
        env={**stripped_environment(tmp_path), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        timeout=60,
        check=True,
    )
    slow = {
        "typing",
        "pathlib",
        "socket",
        "urllib",
        "contextlib",
        "threading",
        "hashlib",
        "agentctx.agents.hooks.capture",
        "agentctx.agents.hooks.turns",
    }
    assert slow & set(done.stderr.decode().split()) == set()


@pytest.mark.parametrize("transcript", ["pipe", "none", "a\0b", "."])
def test_an_unreadable_transcript_has_no_turn(tmp_path: Path, transcript: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    event = {"session_id": "s", "transcript_path": str(tmp_path / transcript)}
    answers: list[object] = []

    def stop() -> None:
        answers.append(
            handler.handle("Stop", "codex", event, namespaces=["n"], socket="/none", remember=True)
        )

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    thread.join(60)
    assert answers == [{}]


@pytest.mark.parametrize(
    "event",
    [
        b'\xff\xfe{"prompt": "How do we deploy?"}',
        b'{"prompt": "caf\xe9"}',
        b'{"prompt": "How?", "cwd": "\\u0000", "session_id": {"a": 1}, "workspace_roots": [5]}',
        json.dumps({"prompt": "How do we deploy? " * 60_000}).encode(),
        json.dumps({"prompt": "<hook_context>" * 70_000}).encode(),
    ],
)
def test_a_strange_event_neither_fails_nor_blocks_a_prompt(tmp_path: Path, event: bytes) -> None:
    done = hook(tmp_path, "BeforeAgent", event, "--client", "gemini", "--socket", "/none")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"" or list(json.loads(done.stdout)) == ["systemMessage"]


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini", "copilot"])
def test_a_refused_turn_is_said_once_a_session_logged_and_counted(tmp_path: Path, client: str) -> None:
    daemon = DaemonProcess(tmp_path, config=f"{WITHOUT_MODEL}\n[limits]\nmax_content_chars = 16\n").start()
    try:
        at = ("--client", client, "--socket", str(daemon.socket), "--remember")
        said = []
        for session in ("s1", "s1", "s2"):
            done = hook(tmp_path, "Stop", {"session_id": session, "last_assistant_message": TURN}, *at)
            assert done.returncode == 0
            said.append(json.loads(done.stdout).get("systemMessage", "") + done.stderr.decode())
        assert ["could not save" in each and "16" in each for each in said] == [True, False, True]
        assert said[1] == ""
        with daemon.client() as asking:
            assert asking.status().activity.captures_refused == 3
            (check,) = asking.doctor(only=["running.captures"]).checks
            assert (check.status, check.message[:7]) == ("warn", "3 saves")
    finally:
        daemon.end()
    assert daemon.events().count("capture_refused") == 3


def test_a_project_with_its_own_json_module_does_not_end_the_hook(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("json", "signal", "typing", "hashlib", "unicodedata", "base64", "pwd", "re"):
        (project / f"{name}.py").write_text("raise SystemExit('mine')\n")
    for number, start in enumerate((["-m", "agentctx"], ["-c", "from agentctx.cli import main; main()"])):
        at = ("--client", "codex", "--remember", "--socket", str(daemon.socket))
        done = subprocess.run(
            [sys.executable, *start, "hook", "Stop", *at],
            input=json.dumps({"session_id": f"s{number}", "last_assistant_message": TURN}).encode(),
            capture_output=True,
            env={**stripped_environment(tmp_path), "PYTHONPATH": f".{os.pathsep}{ROOT}"},
            cwd=project,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"{}\n", b"")
    with daemon.client() as client:
        assert len(client.list(collections=["observation"]).entries) == 2


def test_a_prompt_that_was_cut_in_a_character_gets_its_context(daemon: DaemonProcess, tmp_path: Path) -> None:
    with daemon.client() as client:
        client.save_knowledge("deploys", "The deployment window is Tuesday at noon.")
    at = ("--client", "claude-code", "--socket", str(daemon.socket))
    payload = b'{"session_id": "s\\ud83d", "prompt": "When is the deployment window? \\ud83d"}'
    assert "> The deployment window" in context_of(hook(tmp_path, "UserPromptSubmit", payload, *at))


def test_a_turn_with_characters_that_no_text_has_is_saved(daemon: DaemonProcess, tmp_path: Path) -> None:
    text = "The cache is 4 GB\0 because of the \ud83d index."
    at = ("--client", "codex", "--socket", str(daemon.socket), "--remember")
    for session in ("s1", "\ud800", "a\nb", "x" * 10_000, " "):
        done = hook(tmp_path, "Stop", {"session_id": session, "last_assistant_message": text}, *at)
        assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {}, b"")
    with daemon.client() as client:
        assert len(client.list(collections=["observation"]).entries) == 5


@pytest.mark.parametrize("kind", ["device", "endless", "pipe", "folder", "unreadable", "socket", "link loop"])
def test_a_special_transcript_is_one_clear_line(daemon: DaemonProcess, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "transcript"
    match kind:
        case "device":
            path.symlink_to("/dev/null")
        case "endless":
            path.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        case "link loop":
            path.symlink_to(path)
        case _:
            path = Path("/proc/self/mem")
    payload = {"session_id": "a", "transcript_path": str(path), "prompt_id": "p1"}
    at = ("--client", "claude-code", "--socket", str(daemon.socket), "--remember")
    done = hook(tmp_path, "Stop", payload, *at)
    assert done.returncode == 0
    assert done.stderr.startswith(b"agentctx hook: The transcript ")
    assert done.stderr.count(b"\n") == 1


def test_a_transcript_of_one_huge_line_saves_nothing(daemon: DaemonProcess, tmp_path: Path) -> None:
    path = tmp_path / "transcript"
    path.write_bytes(b'{"type": "user", "message": "' + b"x" * (20 << 20))
    at = ("--client", "claude-code", "--socket", str(daemon.socket), "--remember")
    done = hook(tmp_path, "Stop", {"session_id": "a", "transcript_path": str(path), "prompt_id": "p"}, *at)
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {}, b"")


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_what_a_user_typed_comes_back_in_the_prompts_of_other_sessions(
    client: str, daemon: DaemonProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "DEADLINE_S", 60.0)  # a busy machine
    steps = [Step("prompt", "The deployment window is on Tuesday at noon."), Step("tool", "x")]
    steps.append(Step("answer", "The deployment window is never on Friday, because of the policy."))
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(transcript(client, steps)), "utf-8")
    event = partial(handler.handle, namespaces=["default"], socket=str(daemon.socket), remember=True)
    event("Stop", client, {"session_id": "s1", "transcript_path": str(path)})
    asked = {"prompt": "When is the deployment window?"}
    with daemon.client() as memory:
        trusts = {each.attributes["part"]: each.trust for each in memory.list().entries}
    assert trusts == {"prompt": "agent", "answer": "external"}
    block = str(event("UserPromptSubmit", client, asked | {"session_id": "s2"}))
    assert "> User: The deployment window is on Tuesday at noon." in block
    assert "Friday" not in block
    assert event("UserPromptSubmit", client, asked | {"session_id": "s1"}) is None


def claude_lines(*turns: tuple[str, str, str]) -> list[dict[str, Any]]:
    """A transcript of Claude Code: the id, the prompt and the answer of each turn; no answer: interrupted."""
    lines: list[dict[str, Any]] = []
    for name, prompt, answer in turns:
        lines.append({"type": "user", "promptId": name, "message": {"role": "user", "content": prompt}})
        if answer:
            said = {"role": "assistant", "content": [{"type": "text", "text": answer}]}
            lines.append({"type": "assistant", "message": said})
    return lines


def compacted(daemon: DaemonProcess, tmp_path: Path, lines: list[dict[str, Any]], *extra: str) -> list[str]:
    """Return what is remembered after `PreCompact`."""
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    payload = {"session_id": "s1", "transcript_path": str(path), "trigger": "auto", "cwd": str(tmp_path)}
    done = hook(
        tmp_path, "PreCompact", payload, "--client", "claude-code", "--socket", str(daemon.socket), *extra
    )
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {}, b"")
    with daemon.client() as client:
        return [each.content for each in client.list(collections=["observation"]).entries][::-1]


RULE, DECISION = "We never push to main: open a pull request.", "The importer must stay on Python 3.11."


def test_a_compaction_saves_what_no_turn_has_saved(daemon: DaemonProcess, tmp_path: Path) -> None:
    lines = claude_lines(
        ("p1", RULE, "Understood."), ("p2", "Run the tests.", ""), ("p3", DECISION, "Let me look.")
    )
    assert compacted(daemon, tmp_path, lines) == [], "only with --remember"
    remembered = [f"User: {RULE}", f"User: {DECISION}"]
    assert compacted(daemon, tmp_path, lines, "--remember") == remembered
    ended = {"session_id": "s1", "transcript_path": str(tmp_path / "t.jsonl"), "prompt_id": "p3"}
    at = ("--client", "claude-code", "--socket", str(daemon.socket), "--remember")
    hook(tmp_path, "Stop", {**ended, "last_assistant_message": "Let me look."}, *at)
    assert compacted(daemon, tmp_path, lines, "--remember") == remembered, (
        "the end of a turn adds nothing twice"
    )
    with daemon.client() as client:
        client.forget(client.list(collections=["observation"]).entries[0].id)
    assert compacted(daemon, tmp_path, lines, "--remember") == remembered[:1], "what was forgotten stays so"


def test_a_compaction_saves_nothing_from_before_the_last_one_nor_of_long_ago(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    summary = {"type": "user", "isCompactSummary": True, "message": {"role": "user", "content": "Earlier: …"}}
    old = [line | {"timestamp": "2020-01-01T00:00:00.000Z"} for line in claude_lines(("p0", RULE, ""))]
    assert compacted(daemon, tmp_path, [*claude_lines(("p1", RULE, "")), summary, *old], "--remember") == []


def test_after_a_compaction_rules_and_own_decisions_come_back_once(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    at = ("--client", "claude-code", "--socket", str(daemon.socket))
    start = {"session_id": "s1", "cwd": str(tmp_path)}
    with daemon.client() as client:
        client.save_knowledge("elsewhere", "Another agent saved this before.", agent="codex")
        client.save_knowledge("titles", "Titles name the ticket.", category="rule")
        client.save_knowledge("before", "Saved before the session began.", agent="claude-code")
    hook(tmp_path, "SessionStart", {**start, "source": "startup"}, *at)
    with daemon.client() as client:
        client.save_knowledge("saved", "The importer runs nightly.", agent="claude-code")
        client.save_observation("s1", "Kim reviews the importer.", agent="claude-code")
        client.save_observation("s2", "Of another session.", agent="claude-code")
        client.save_observation("s1", "A page said this.", agent="claude-code", origin="tool")
    compacted(daemon, tmp_path, claude_lines(("p1", RULE, "Understood.")), "--remember")
    block = context_of(hook(tmp_path, "SessionStart", {**start, "source": "compact"}, *at))
    given = [line for line in block.splitlines() if line.startswith("> ")]
    assert given[0] == "> Titles name the ticket.", "rules come first"
    assert sorted(given[1:3]) == ["> Kim reviews the importer.", "> The importer runs nightly."]
    assert given[3:] == [f"> User: {RULE}"], "and nothing else"
    for _ in range(2):  # given again after each compaction, but once
        again = context_of(hook(tmp_path, "SessionStart", {**start, "source": "compact"}, *at))
        assert [line for line in again.splitlines() if line.startswith("> ")] == given


def test_rules_leave_no_room_to_other_knowledge_and_say_what_is_missing(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    at = ("--client", "claude-code", "--socket", str(daemon.socket))
    names = [f"{one}{two}" for one in "abcdefgh" for two in "ijklmnop"]
    with daemon.client() as client:
        client.save_knowledge("fact", "Conventions and decisions of this project: an unrelated fact.")
        for name in names[:20]:
            client.save_knowledge(name, f"Module {name} is owned by team {name[::-1]}.", category="rule")
    block = context_of(hook(tmp_path, "SessionStart", {"cwd": str(tmp_path)}, *at))
    assert (block.count("is owned by"), "an unrelated fact" in block, "No room" in block) == (20, True, False)
    with daemon.client() as client:
        for name in names[20:]:
            client.save_knowledge(name, f"Module {name} is owned by team {name[::-1]}.", category="rule")
    block = context_of(hook(tmp_path, "SessionStart", {"cwd": str(tmp_path)}, *at))
    shown = block.count("is owned by")
    assert 30 < shown < 64
    assert block.endswith(
        f"No room here for {64 - shown} more rules and decisions from memory: search it before you act."
    )
    assert "an unrelated fact" not in block
