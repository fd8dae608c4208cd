"""Real bridges, with a real daemon behind them or none."""

import io
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctx.agents.daemon import DaemonUnavailable, ask
from agentctx.agents.mcp import bridge as bridge_module
from agentctx.agents.mcp.protocol import McpToolCall
from agentctx.agents.mcp.tools import ToolScope
from tests.agents.bridge_process import BridgeProcess, stripped_environment
from tests.end_to_end.daemon_process import DaemonProcess

pytestmark = pytest.mark.process
Start = Callable[..., BridgeProcess]
RECORDED = Path(__file__).parents[1] / "data/transcripts"
MOST_TRIES = 20
"""Of an event whose deadline a loaded machine may miss."""


def test_a_conversation_from_the_handshake_to_forgetting(daemon: DaemonProcess, start_bridge: Start) -> None:
    bridge = start_bridge("--socket", str(daemon.socket), "--agent", "codex")
    handshake = bridge.ask("initialize", {"protocolVersion": "2025-06-18"})
    assert handshake["result"]["protocolVersion"] == "2025-06-18"
    bridge.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    saved, failed = bridge.tool("save", content="Deploys happen on Tuesdays.", key="deploys", category="rule")
    assert (saved.startswith("Saved in "), failed) == (True, False)
    found, _ = bridge.tool("search", query="When do deploys happen?")
    hit = json.loads(found.splitlines()[1])
    assert (hit["source_id"], hit["agent"]) == ("deploys", "codex")
    block, _ = bridge.tool("context", query="When do deploys happen?")
    assert block.startswith("## Semantic Context (RAG)")
    assert "> Deploys happen on Tuesdays." in block

    assert bridge.tool("forget", id=hit["id"]) == (f"Forgotten: {hit['id']}.", False)
    assert bridge.tool("search", query="When do deploys happen?")[0].startswith("Nothing was found.")


def test_a_learning_is_rated(daemon: DaemonProcess, start_bridge: Start) -> None:
    bridge = start_bridge("--socket", str(daemon.socket))
    bridge.tool(
        "learn", trigger="tool:psql", error_pattern="too many connections", fix="Raise the pool's limit."
    )
    found, _ = bridge.tool("search", query="psql has too many connections", collection="learning")
    entry = json.loads(found.splitlines()[1])["id"]
    assert bridge.tool("feedback", id=entry, success=True) == (f"Recorded for {entry}.", False)


def test_a_project_does_not_reach_the_entries_of_another(daemon: DaemonProcess, start_bridge: Start) -> None:
    one = start_bridge("--socket", str(daemon.socket), "--namespace", "one")
    two = start_bridge("--socket", str(daemon.socket), "--namespace", "two")
    one.tool("save", content="The launch code is Tuesday.", key="launch")
    hit = json.loads(one.tool("search", query="launch code")[0].splitlines()[1])

    assert two.tool("search", query="launch code")[0].startswith("Nothing was found.")
    text, failed = two.tool("forget", id=hit["id"])
    assert failed
    assert "no such entry" in text
    assert "Tuesday" in one.tool("context", query="launch code")[0]


def test_the_stateless_era_needs_no_handshake(daemon: DaemonProcess, start_bridge: Start) -> None:
    bridge = start_bridge("--socket", str(daemon.socket))
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    assert bridge.ask("server/discover", meta)["result"]["supportedVersions"] == ["2026-07-28"]
    call = meta | {"name": "search", "arguments": {"query": "anything"}}
    assert bridge.ask("tools/call", call)["result"]["resultType"] == "complete"


def test_ten_bridges_run_concurrently(daemon: DaemonProcess, start_bridge: Start) -> None:
    bridges = [start_bridge("--socket", str(daemon.socket)) for _ in range(10)]
    for number, bridge in enumerate(bridges):
        for each in range(5):
            arguments = {"content": f"Fact {each} of bridge {number}.", "key": f"fact-{number}-{each}"}
            bridge.send(
                {
                    "jsonrpc": "2.0",
                    "id": each,
                    "method": "tools/call",
                    "params": {"name": "save", "arguments": arguments},
                }
            )
    for bridge in bridges:
        replies = [bridge.receive() for _ in range(5)]
        assert {reply["id"] for reply in replies} == set(range(5))
        assert not any(reply["result"]["isError"] for reply in replies)
    with daemon.client() as client:
        assert len(client.list(limit=100).entries) == 50


def test_without_a_daemon_a_tool_says_what_to_do_and_works_once_it_runs(
    daemon: DaemonProcess, start_bridge: Start
) -> None:
    bridge = start_bridge("--socket", str(daemon.socket))
    assert not bridge.tool("save", content="Backups run at three.", key="backups")[1]
    daemon.stop(signal.SIGKILL)

    text, failed = bridge.tool("search", query="backups")
    assert failed
    assert f"Start it with `agentctx serve --socket {daemon.socket}`, then try again." in text
    assert "systemctl" not in text, "no service is installed"
    assert bridge.ask("ping")["result"] == {}

    daemon.start()
    assert "Backups run at three." in bridge.tool("search", query="backups")[0]


def test_a_daemon_that_dies_during_a_request_causes_an_error_reply(
    tmp_path: Path, start_bridge: Start
) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        closing = threading.Thread(target=close_the_first, args=(listening,))
        closing.start()
        text, failed = start_bridge("--socket", str(path)).tool("save", content="c", key="k")
        closing.join(10)
    assert failed
    assert "may or may not have been carried out" in text


def close_the_first(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    connection.recv(1 << 16)
    connection.close()


def test_errors_of_the_daemon_are_shown_with_their_hint(daemon: DaemonProcess, start_bridge: Start) -> None:
    bridge = start_bridge("--socket", str(daemon.socket))
    text, failed = bridge.tool("save", content="c", key="k", ttl="soon")
    assert failed
    assert "Invalid duration 'soon'. Write a number and s, m, h, d or w" in text


def test_invalid_json_gets_an_error_and_the_next_line_an_answer(start_bridge: Start) -> None:
    bridge = start_bridge("--socket", "/nowhere")
    assert bridge._process.stdin is not None
    bridge._process.stdin.write(b"\xff{not json\n\n[" + b"[" * 100_000 + b"\n")
    assert bridge.receive()["error"]["code"] == -32700
    assert bridge.receive()["error"]["code"] == -32700
    assert bridge.ask("ping")["result"] == {}


def test_a_batch_is_answered_as_one(start_bridge: Start) -> None:
    bridge = start_bridge("--socket", "/nowhere")
    call = {"name": "search", "arguments": {"query": "q"}}
    bridge.send(
        [
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
        ]
    )
    first, second = list[dict[str, Any]](bridge.receive())  # type: ignore[arg-type]  # a batch is a list
    assert (first["id"], second["id"]) == (1, 2)
    assert second["result"]["isError"]


def test_prints_do_not_reach_the_client(tmp_path: Path) -> None:
    program = (
        "import os, sys; from agentctx.agents.mcp import bridge; real = bridge.step\n"
        "def noisy(*a, **k):\n print('stray'); os.write(1, b'stray'); return real(*a, **k)\n"
        "bridge.step = noisy; bridge.main([])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
        capture_output=True,
        env=stripped_environment(tmp_path),
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert done.stderr.count(b"stray") == 2


@pytest.mark.parametrize("command", [["mcp"], ["hook", "Stop", "--client", "codex"]])
def test_nothing_but_the_standard_library_is_imported(command: list[str], tmp_path: Path) -> None:
    program = (
        f"import sys; sys.argv[1:] = {command!r}\n"
        "import atexit; from agentctx.cli import main\n"
        "before = set(sys.modules)\n"
        "atexit.register(lambda: sys.stderr.write(' '.join(set(sys.modules) - before)))\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=b"",
        capture_output=True,
        env=stripped_environment(tmp_path),
        timeout=60,
        check=True,
    )
    foreign = {
        name
        for name in done.stderr.decode().split()
        if name.partition(".")[0] not in sys.stdlib_module_names and not name.startswith("agentctx.agents")
    }
    assert foreign <= {
        "agentctx.config",
        "agentctx.config.paths",
        "agentctx.names",
        "agentctx.config.project",
    }


def test_a_wrong_command_line_exits_with_2_and_a_reason() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentctx", "mcp", "--sockets", "x"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"Unknown option --sockets. Use --socket" in done.stderr


def test_a_hook_of_the_client_is_a_tool_that_no_model_sees(
    daemon: DaemonProcess, start_bridge: Start
) -> None:
    bridge = start_bridge("--socket", str(daemon.socket), "--agent", "claude-code")
    assert "hook" not in [tool["name"] for tool in bridge.ask("tools/list")["result"]["tools"]]
    bridge.tool("save", content="Deploys of the shop happen on Tuesdays.", key="deploys")
    event = {"event": "UserPromptSubmit", "session_id": "s1", "prompt": "When do deploys of the shop happen?"}
    text, failed = bridge.tool("hook", **event)
    shown = json.loads(text)["hookSpecificOutput"]
    assert (shown["hookEventName"], failed) == ("UserPromptSubmit", False)
    assert "> Deploys of the shop happen on Tuesdays." in shown["additionalContext"]
    assert bridge.tool("hook", **event) == ("{}", False), "once in a conversation"


def test_a_hook_without_a_daemon_adds_nothing(tmp_path: Path, start_bridge: Start) -> None:
    bridge = start_bridge("--socket", str(tmp_path / "none"), "--agent", "claude-code")
    assert bridge.tool("hook", event="UserPromptSubmit", prompt="When do deploys happen?") == ("{}", False)


def test_a_tool_fix_is_learned_once_and_counted_per_session(
    daemon: DaemonProcess, start_bridge: Start
) -> None:
    bridge = start_bridge("--socket", str(daemon.socket), "--agent", "claude-code")
    stop = {"event": "Stop", "remember": True, "transcript_path": str(RECORDED / "claude-code.jsonl")}

    def learnings() -> list[tuple[object, object]]:
        with daemon.client() as client:
            entries = client.list(collections=["learning"], namespace="default").entries
        return [(each.attributes["fix"], each.attributes["occurrences"]) for each in entries]

    for session, times in (("s1", 1), ("s1", 1), ("s2", 2)):
        for _ in range(MOST_TRIES):
            assert bridge.tool("hook", **stop, session_id=session) == ("{}", False)
            if learnings() and learnings()[0][1] == times:
                break
        assert learnings() == [("`psql shop` failed; this worked: `psql -h db-2 shop`", times)]


def test_the_end_of_a_turn_is_saved_with_the_prompt_of_the_transcript(
    daemon: DaemonProcess, start_bridge: Start, tmp_path: Path
) -> None:
    transcript = tmp_path / "transcript.jsonl"
    said = {"type": "user", "promptId": "p", "message": {"content": "Which port is it?"}}
    transcript.write_text(json.dumps(said), "utf-8")
    bridge = start_bridge("--socket", str(daemon.socket), "--agent", "claude-code")
    stop = {"event": "Stop", "session_id": "s1", "remember": True, "transcript_path": str(transcript)}
    stop["prompt_id"] = "p"
    bridge.tool("hook", **stop, last_assistant_message="The proxy listens on 8443, because 443 is taken.")
    bridge.tool("hook", **stop, last_assistant_message="Done.")
    with daemon.client() as client:
        (turn,) = client.list(collections=["observation"], namespace="default").entries
    assert turn.content.startswith("User: Which port is it?\n\nAssistant: The proxy listens on 8443")
    assert (turn.session, turn.trust) == ("s1", "external")


def test_a_save_that_was_not_answered_is_saved_once_when_repeated(
    daemon: DaemonProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*request: Any, **options: Any) -> Any:
        ask(*request, **options)
        raise DaemonUnavailable("It was carried out, but too late.")

    bridge = bridge_module.Bridge(
        io.BytesIO(), named_socket=str(daemon.socket), scope=ToolScope("default", "s1", "codex")
    )

    def save(text: str) -> None:
        bridge._run(McpToolCall(1, "save", {"content": text}, None, is_stateless=False))

    monkeypatch.setattr(bridge_module, "ask", late)
    save("The key hangs behind the cabinet.")
    save("The other key is lost.")
    monkeypatch.setattr(bridge_module, "ask", ask)
    save("The key hangs behind the cabinet.")
    with daemon.client() as client:
        assert len(client.list(collections=["observation"]).entries) == 2
        save("The key hangs behind the cabinet.")  # on purpose, as another one
        assert len(client.list(collections=["observation"]).entries) == 3


def test_slow_calls_do_not_hold_up_a_ping(tmp_path: Path, start_bridge: Start) -> None:
    path = tmp_path / "silent.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(100)
        bridge = start_bridge("--socket", str(path))
        params = {"name": "search", "arguments": {"query": "x"}}
        call = {"jsonrpc": "2.0", "method": "tools/call", "params": params}
        bridge.send([{**call, "id": "batch"}])
        for number in range(80):
            bridge.send({**call, "id": f"slow{number}"})
        bridge.send({"jsonrpc": "2.0", "id": "ping", "method": "ping"})
        while (reply := bridge.receive())["id"] != "ping":
            assert "Too many calls" in reply["result"]["content"][0]["text"]
        assert reply["result"] == {}


def test_pipes_that_do_not_block_are_read_to_their_end(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "agentctx", "mcp"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            env=stripped_environment(tmp_path),
            cwd=tmp_path,
        )
        theirs.close()
        with ours.makefile("rwb") as stream:
            for number in range(3):
                stream.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode() + b"\n")
                stream.flush()
                assert json.loads(stream.readline())["id"] == number
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(60) == 0


def test_text_that_is_not_utf_8_is_read_as_official_servers_read_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentctx", "mcp"],
        input=b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": "\xff", "method": "ping"}\r\n',
        capture_output=True,
        env=stripped_environment(tmp_path),
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": "\ufffd", "result": {}}


@pytest.mark.parametrize("command", ["mcp", "hook Stop --client codex"])
def test_a_namespace_that_is_not_valid_is_one_clear_error(tmp_path: Path, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentctx", *command.split(), "--namespace", "my team"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=stripped_environment(tmp_path),
        timeout=60,
        check=False,
    )
    assert done.returncode == (2 if command == "mcp" else 1)
    said = f"agentctx {command[:4].strip()}: The namespace 'my team' is not valid."
    assert done.stderr.decode().startswith(said)
