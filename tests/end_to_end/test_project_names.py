"""Agents in folders and clones with awkward names save and find, with the real bridge and hook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.bridge_process import BridgeProcess, stripped_environment
from tests.agents.conftest import WITHOUT_MODEL
from tests.amount import some
from tests.end_to_end.daemon_process import DaemonProcess
from tests.forked_process import run_forked

pytestmark = pytest.mark.process

REMOTES = [
    "https://dev.azure.com/acme/My%20Project/_git/shop",
    "https://dev.azure.com/acme/My Project/_git/shop",
    "git@ssh.dev.azure.com:v3/acme/My%20Project/shop",
    "https://acme@bitbucket.org/~bob/shop.git",
    "https://bitbucket.example.org/scm/~BOB/shop.git",
    "git@git.sr.ht:~bob/shop",
    "https://github.com/ann/c++",
    "ssh://git@[2001:db8::1]:2222/ann/shop.git",
    "ssh://git@[2001:db8::2]:2222/ann/shop.git",
    "git@[fe80::1%eth0]:ann/shop.git",
    "[git@example.org:2222]:ann/port.git",
    "https://example.org/ann/shop.git?private=1#main",
    "https://example.org/ann/it's (old), really",
    "https://example.org/ann/a&b=c",
    "https://example.org/ann/shop;v=1",
    "https://example.org/größe/straße",
    "https://example.org/gro\u0308sse/strasse",
    "https://münchen.example/ann/shop",
    "https://example.org/日本語/リポジトリ",
    "https://example.org/проект/магазин",
    "https://example.org/" + "very/" * 60 + "deep",
    "https://example.org/" + "very/" * 60 + "deeper",
    "https://example.org/" + "größe/" * 60 + "deep",
    "C:\\Users\\bob\\shop",
    "\\\\server\\share\\shop",
    "git@host:[brackets]{braces}",
    'git@host:quo"ted',
    "git@host:tab\there",
    "git@host:$HOME/`id`",
    "git@host:a|b<c>d*e?",
    "https://gitlab.example.org/group/sub group/shop",
    "https://example.org/ann/100%",
    "https://example.org/ann/émoji-🦊",
    "codecommit::eu-west-1://shop repo",
]
FOLDERS = [
    b"with space",
    b" leading and trailing ",
    *(f"a{mark}b".encode() for mark in "+~#(),'\"$%&=[]{}\\;!*?<>|^`"),
    b"line\nbreak",
    b"tab\tbed",
    b"\x01control\x7f",
    b"not-utf8-\xff\xfe",
    b"latin-\xe9",
    "größe".encode(),
    "gro\u0308ße".encode(),
    "日本語の長い名前のフォルダ".encode(),
    "Документы/Проекты/магазин рядом".encode(),
    "פרויקט".encode(),
    "🦊 fox".encode(),
    "zero\u200bwidth".encode(),
    b"zerowidth",
    b"no-break\xc2\xa0space",
    b"-dash",
    b"long " + b"x" * 240,
    b"long " + b"x" * 239 + b"y",
    b"deep/" * 60 + b"end",
    b"OneDrive - Acme Corp/Repos & Co",
    b"Program Files (x86)/shop",
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    running = DaemonProcess(tmp_path_factory.mktemp("names"), config=WITHOUT_MODEL).start()
    yield running
    running.end()


def repository(folder: bytes, remote: str | None = None) -> bytes:
    os.makedirs(folder + b"/.git/objects")  # noqa: PTH103 - a path of bytes
    quoted = (remote or "").replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    config = f'[remote "origin"]\n\turl = "{quoted}"\n' if remote else "[core]\n"
    for name, text in ("HEAD", "ref: refs/heads/main\n"), ("config", config):
        with open(folder + b"/.git/" + name.encode(), "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
    return folder


def remembered(daemon: DaemonProcess, folder: bytes, session: str, text: str) -> str:
    """Let a hook save a turn, and return what it says."""
    command = [sys.executable, "-m", "agentctx", "hook", "Stop", "--client", "claude-code", "--remember"]
    done = subprocess.run(
        [*command, "--socket", str(daemon.socket)],
        input=json.dumps({"session_id": session, "last_assistant_message": text}).encode(),
        capture_output=True,
        env=stripped_environment(daemon.data_dir),
        cwd=folder,
        timeout=60,
        check=True,
    )
    return (done.stdout + done.stderr).decode()


def trouble(daemon: DaemonProcess, folder: bytes, number: int, seen: dict[str, int]) -> str:
    """Save and find in a folder; return what goes wrong."""
    bridge = BridgeProcess(
        "mcp",
        "--socket",
        str(daemon.socket),
        env=stripped_environment(daemon.data_dir),
        cwd=Path(os.fsdecode(folder)),
    )
    try:
        saved, failed = bridge.tool("save", content=f"The zebra{number} hangs behind the cabinet.")
        if failed:
            return saved
        said = remembered(daemon, folder, f"s{number}", f"We keep otter{number} because the cache needs it.")
        if json.loads(said) != {}:
            return said
        for word in f"zebra{number}", f"otter{number}":
            found, failed = bridge.tool("search", query=word)
            if failed or word not in found:
                return f"{word}: {found}"
    finally:
        bridge.end()
    place = saved.partition(" as ")[0]
    return f"shares its name with {seen[place]}" if seen.setdefault(place, number) != number else ""


def test_every_folder_and_remote_has_a_memory_of_its_own(daemon: DaemonProcess, tmp_path: Path) -> None:
    assert len(REMOTES) + len(FOLDERS) >= 60
    home, rows = os.fsencode(tmp_path), list[tuple[object, bytes]]()
    for number, remote in enumerate(some(REMOTES, 12)):
        rows.append((remote, repository(home + b"/remotes/%d" % number, remote)))
    for name in some(FOLDERS, 12):
        rows.append((name, repository(home + b"/folders/" + name)))
    seen: dict[str, int] = {}
    wrong = {name: trouble(daemon, folder, number, seen) for number, (name, folder) in enumerate(rows)}
    assert {name: why for name, why in wrong.items() if why} == {}


def test_commands_in_a_repository_find_and_change_what_its_agent_saved(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    folder = Path(
        os.fsdecode(repository(os.fsencode(tmp_path) + b"/my shop", "git@example.org:ann/shop.git"))
    )
    below = folder / "src"
    below.mkdir()
    env = stripped_environment(daemon.data_dir)
    bridge = BridgeProcess("mcp", "--socket", str(daemon.socket), env=env, cwd=folder)
    try:
        bridge.tool("save", content="The zebra hangs behind the cabinet.", key="zebra")
    finally:
        bridge.end()

    def command(*words: str, code: int = 0) -> str:
        done = run_forked(["--socket", str(daemon.socket), *words], env, below)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    for asking in (["list"], ["search", "zebra"], ["get", "zebra"], ["history", "zebra"]):
        assert "behind the cabinet" in command(*asking)
    command("edit", "zebra", "--content", "The zebra hangs in the hall.")
    assert "in the hall" in command("get", "zebra")
    assert "saved in git:example.org/ann/shop" in command("save", "knowledge", "--key", "otter", "It swims.")
    command("forget", "zebra", "--yes")
    command("get", "zebra", code=1)
