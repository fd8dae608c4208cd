import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from agentctx import __version__
from agentctx.cli import status as status_command
from agentctx.cli.app import create_app, load_command, run
from agentctx.config.commit import build_name, own_commit
from agentctx.wire import ForgetReply
from tests.cli.conftest import Agentctx
from tests.client.stub_daemon import ID, StubDaemon, queue_reply, status_reply


def test_the_version_is_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"agentctx {build_name(__version__, own_commit())}\n"


def test_a_missing_daemon_exits_3_and_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.sock"

    assert run(["--socket", str(path), "search", "q"]) == 3

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: No daemon answers on {path}: the socket does not exist.\n")
    assert f"hint: Start it with `agentctx serve --socket {path}`" in captured.err
    assert "`agentctx doctor`" in captured.err


def test_the_socket_is_taken_from_the_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status"]) == 3
    assert str(tmp_path / "unnamed.sock") in capsys.readouterr().err


def test_a_missing_daemon_exits_3_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--json"]) == 3
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "daemon_unreachable"


def test_arguments_after_two_dashes_do_not_enable_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["wrap", "--", "ls", "--json"]) == 3
    assert capsys.readouterr().err.startswith("error: ")


def test_the_socket_option_may_follow_the_command(daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/status", (200, status_reply()))
    daemon.answer("GET", "/v1/queue", (200, queue_reply(0, 0)))
    assert run(["status", "--socket", str(daemon.socket)]) == 0
    assert run(["queue", "status", f"--socket={daemon.socket}"]) == 0
    assert run(["--socket", "/nowhere.sock", "status", "--socket", str(daemon.socket)]) == 0


def test_another_daemon_version_is_reported(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/queue", (200, queue_reply(0, 0)))
    daemon.version = __version__
    agentctx("queue", "status")
    assert agentctx.err == ""

    daemon.version = "99.0.0"
    assert agentctx("queue", "status") == 0
    assert "the daemon is version 99.0.0" in agentctx.err


def test_an_interrupt_exits_130(
    agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> list[str]:
        raise KeyboardInterrupt

    daemon.answer("GET", "/v1/status", (200, status_reply()))
    monkeypatch.setattr(status_command, "status_lines", interrupted)

    assert agentctx("status") == 130


def test_a_bug_is_not_hidden(agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[str]:
        raise ZeroDivisionError

    daemon.answer("GET", "/v1/status", (200, status_reply()))
    monkeypatch.setattr(status_command, "status_lines", broken)

    with pytest.raises(ZeroDivisionError):
        agentctx("status")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["queue status", "--help", "search --help", "--version"])
def test_a_closed_pipe_is_not_an_error(daemon: StubDaemon, command: str, unbuffered: str) -> None:
    daemon.answer("GET", "/v1/queue", (200, queue_reply(0, 0)))
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "agentctx", "--socket", str(daemon.socket), *command.split()],
            stdout=closed,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_narrow_encoding_does_not_abort_a_command(daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/status", (200, status_reply(entries={"日記": 1})))
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}

    def output(*args: str) -> str:
        command = [sys.executable, "-m", "agentctx", "--socket", str(daemon.socket), "status", *args]
        done = subprocess.run(command, capture_output=True, env=environment, check=True)
        return done.stdout.decode("ascii")

    assert "1 \\u65e5\\u8a18" in output()
    assert json.loads(output("--json"))["entries"] == {"日記": 1}


def run_redirected(daemon: StubDaemon, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command line with redirections in a shell; `agentctx` stands for the command."""
    agentctx = f"{sys.executable} -m agentctx --socket {daemon.socket}"
    return subprocess.run(
        ["sh", "-c", command.replace("agentctx", agentctx)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("agentctx queue status > /dev/full", "error: stdout cannot be written: No space left on device."),
        ("agentctx --version > /dev/full", "error: stdout cannot be written: No space left on device."),
        ("agentctx queue status >&-", "error: stdout cannot be written: Bad file descriptor."),
        (
            "agentctx save observation - --session s <&-",
            "error: The text cannot be read from stdin: Bad file descriptor.",
        ),
        ("agentctx import - <&-", "error: stdin cannot be read: Bad file descriptor."),
    ],
)
def test_an_unusable_stream_exits_1_and_is_named(daemon: StubDaemon, command: str, said: str) -> None:
    daemon.answer("GET", "/v1/queue", (200, queue_reply(0, 0)))
    done = run_redirected(daemon, command)
    assert done.returncode == 1
    error, hint = done.stderr.splitlines()
    assert error == said
    assert hint.startswith("hint: ")


def test_commands_work_without_stdin_and_stderr(daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/queue", (200, queue_reply(0, 0)))
    daemon.answer("DELETE", f"/v1/entries/{ID}", (200, ForgetReply(id=ID, versions=1)))
    assert run_redirected(daemon, "agentctx queue status <&- 2>&-").returncode == 0
    assert run_redirected(daemon, f"agentctx forget --yes {ID} <&-").returncode == 0
    failed = run_redirected(daemon, "agentctx get none 2>&-")
    assert (failed.returncode, failed.stdout) == (1, "")


def test_a_system_error_names_the_file_and_the_remedy(
    agentctx: Agentctx,
    daemon: StubDaemon,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed(*_: object) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", "/closed/file")

    daemon.answer("GET", "/v1/status", (200, status_reply()))
    monkeypatch.setattr(status_command, "status_lines", closed)

    assert agentctx("status") == 1
    error, hint = agentctx.err.splitlines()
    assert error == "error: /closed/file: Permission denied."
    assert hint.startswith("hint: Change the permissions of the file")


def completed(words: str, shell: str = "bash") -> list[str]:
    """Return what a shell offers for the last of these words, as its completion script asks for it."""
    asked = {
        "_AGENTCTX_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    command = [sys.executable, "-c", "from agentctx.cli import main; main()"]
    done = subprocess.run(command, capture_output=True, text=True, env=asked, check=True)
    return done.stdout.strip().splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("agentctx se", ["search", "serve", "service"]),
        ("agentctx --socket /s co", ["context", "connect", "config"]),
        ("agentctx save know", ["knowledge"]),
        ("agentctx queue re", ["retry"]),
        ("agentctx search --ord", ["--order"]),
        ("agentctx list --all --sess", ["--session"]),
        ("agentctx serch --ord", []),
    ],
)
def test_a_shell_completes_commands_and_their_options(words: str, offered: list[str]) -> None:
    assert completed(words) == offered


def test_a_shell_shows_the_help_of_each_command() -> None:
    assert completed("agentctx his", "fish") == ["history\tShow the versions of an entry, newest first."]


def test_typers_private_display_type_still_decides_what_help_shows_of_a_value() -> None:
    """`app.py` replaces `display_type_rich` and calls `display_type`, which any release may rename."""
    search = load_command("search")
    order, query = (next(each for each in search.params if each.name == name) for name in ("order", "query"))
    assert (order.display_type(None), query.display_type(None)) == ("<distance|relevance>", "<list[str]>")
    order.display_type_rich = query.display_type_rich = lambda **_: "REPLACED"
    for parameter in (order, query):
        assert parameter.get_help_record(typer.Context(search))[0].endswith(" REPLACED")


def test_typer_still_takes_its_readers_from_where_ours_are_put() -> None:
    """`app.py` replaces `typer.core.build_runtime_param`, which any release may rename."""
    for command in (create_app(), load_command("search")):
        readers = {type(each.get_runtime_param()).__name__ for each in command.params}
        assert readers == {"ValueReader"}
