"""`make screens`: pictures of what a person sees, each from the real command in a pseudo-terminal.

The first argument is the folder to write to. A daemon with a few memories is started for the commands that
need one, in a folder that is removed afterwards. `sessions` has a daemon of its own, and a model that knows
the answer only if the call has it.
"""

from __future__ import annotations

import html
import os
import pty
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import RawIOBase
from itertools import groupby
from pathlib import Path
from typing import IO, cast

import httpx
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from agentctx import Client
from agentctx.cli.demo import wait_for_model
from agentctx.cli.demo_memories import IN_OTHER_WORDS, MEMORIES

WIDTH = 112
_PICTURE = CONSOLE_SVG_FORMAT.replace("<svg ", '<svg xml:space="preserve" ', 1)
"""Some viewers drop the spaces at the start of a text otherwise, and columns move."""
_FONT_FACE = re.compile(r"@font-face \{\{.*?\}\}", re.DOTALL)
"""rich's pictures would load a font from elsewhere; the viewer's monospaced one does."""
_TEXT = re.compile(
    r'<text class="([^"]+)" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)" ([^>]+)>([^<]+)</text>'
)
HOME = "/home/ann/agentctx"
DEMO = "/home/ann/try/agentctx-demo"
_PREFIX = "x" * (len(HOME) - len(f"{tempfile.gettempdir()}/") - 8)
PROGRAM = Path(sys.executable).with_name("agentctx")


@dataclass(frozen=True, slots=True)
class Screen:
    """One picture: its name, and the arguments of the command. The demo starts its own daemon."""

    name: str
    arguments: tuple[str, ...]
    is_alone: bool = False


SCREENS = (
    Screen("demo", ("demo",), is_alone=True),
    Screen("search", ("search", "--limit", "3", IN_OTHER_WORDS[0].text)),
    Screen("doctor", ("doctor",)),
    Screen("top", ("top", "--once")),
)


QUESTION = "When do deploys happen?"
AGENT = f"""from openai import OpenAI
reply = OpenAI().responses.create(model="gpt-5.4-mini", input="{QUESTION}")
print(reply.output_text)
"""
SESSIONS = (
    "# Monday, one agent: what its session learns, it saves",
    'agentctx save knowledge --key deploy-window --wait "Deploys happen on Tuesdays before noon."',
    "# Tuesday, another program, which calls an LLM",
    "tail -2 agent.py",
    "python agent.py",
    "# The same program with the memory",
    "agentctx wrap -- python agent.py",
    "# What it was given, and why",
    "agentctx why --last",
)
ANSWERS = [
    {"text": "On Tuesdays before noon.", "contains": "Deploys happen on Tuesdays before noon."},
    {"text": "I do not know your team's deploy schedule."},
]


def main(folder: Path) -> None:
    """Write `NAME.svg` for every screen."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sessions.svg").write_text(_sessions(), encoding="utf-8")
    with _folder() as home, _daemon(Path(home)) as environment:
        for screen in SCREENS:
            given = _plain_environment() if screen.is_alone else environment
            written = _in_terminal([str(PROGRAM), *screen.arguments], given)
            title = f"agentctx {' '.join(screen.arguments)}"
            (folder / f"{screen.name}.svg").write_text(
                _picture(written, screen.name, title), encoding="utf-8"
            )


def _sessions() -> str:
    """Two programs and one memory: the second is answered with what the first one saved."""
    with _folder() as home, _vendor() as vendor:
        folder = Path(home)
        (folder / "agent.py").write_text(AGENT, encoding="utf-8")
        config = folder / "config.toml"
        config.write_text(
            f'[proxy]\ntcp_port = {_free_port()}\nopenai_url = "{vendor}/openai"\n'
            # A busy machine must not change what the picture shows.
            "[injection]\nstore_prompts = true\ndeadline_ms = 30000\n",
            encoding="utf-8",
        )
        with _daemon(folder, config, remember=False) as environment:
            given = {
                **environment,
                "PATH": f"{PROGRAM.parent}{os.pathsep}{environment['PATH']}",
                "OPENAI_API_KEY": "any",
                "OPENAI_BASE_URL": f"{vendor}/openai/v1",
            }
            written = _in_terminal(["bash", "-c", _typed(SESSIONS)], given, folder)
    return _picture(written, "sessions", "two sessions, one memory")


def _typed(lines: Sequence[str]) -> str:
    """A script that shows each line as it is typed, and runs it. A comment is dim."""
    shown = [
        f"printf '\\033[2m%s\\033[0m\\n' {shlex.quote(line)}"
        if line.startswith("#")
        else f"printf '\\033[1m$ %s\\033[0m\\n' {shlex.quote(line)}; {line}; echo"
        for line in lines
    ]
    return "\n".join(shown)


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@contextmanager
def _vendor() -> Iterator[str]:
    """The address of a fake vendor with `ANSWERS`."""
    command = [str(PROGRAM), "dev", "fake-provider"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_plain_environment()) as server:
        output = cast("IO[str]", server.stdout)
        try:
            address = output.readline().removeprefix("listening on ").partition(";")[0].strip()
            httpx.post(f"{address}/__script", json={"answers": ANSWERS}).raise_for_status()
            yield address
        finally:
            server.terminate()
            output.read()


@contextmanager
def _daemon(folder: Path, config: Path | None = None, *, remember: bool = True) -> Iterator[dict[str, str]]:
    path = folder / "agentctx.sock"
    command = [str(PROGRAM), "serve", "--data-dir", str(folder / "data"), "--socket", str(path)]
    command += ["--config", str(config)] if config else []
    environment = {**_plain_environment(), "AGENTCTX_SOCKET": str(path)}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    try:
        with Client(path, start_timeout_s=30) as client:
            client.status()
            if remember:
                _remember(client)
        yield {**environment, "AGENTCTX_DATA_DIR": str(folder / "data")}
    finally:
        process.terminate()
        process.wait()


def _remember(client: Client) -> None:
    """Save and ask what the demo does; a test asserts that its answers come first."""
    for memory in MEMORIES.values():
        client.save(memory.collection, memory.content, **memory.fields)
    client.drain(30)
    wait_for_model(client)
    for question in IN_OTHER_WORDS:
        client.search(question.text)


def _in_terminal(command: Sequence[str], environment: dict[str, str], folder: Path | None = None) -> str:
    """What the command writes to a terminal of `WIDTH` columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, WIDTH))
    with open(ours, "rb", buffering=0) as screen:  # noqa: PTH123 - a descriptor, not a path
        given = {**environment, "TERM": "xterm-256color"}
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=given, cwd=folder)
        os.close(theirs)
        written = b"".join(_until_closed(screen))
        process.wait()
    return _of_nobody(written.decode(errors="replace").replace("\r\n", "\n"))


def _of_nobody(shown: str) -> str:
    """Name folders that are no machine's, of the same length, so that no line moves."""
    folder = re.escape(tempfile.gettempdir())
    shown = re.sub(rf"{folder}/agentctx-demo-\w{{8}}", DEMO, shown)
    return re.sub(rf"{folder}/{_PREFIX}\w{{8}}", HOME, shown)


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix=_PREFIX)


def _until_closed(screen: RawIOBase) -> Iterator[bytes]:
    while True:
        try:
            piece = screen.read(65_536)
        except OSError:  # Linux says EIO when nobody has the other end any more
            return
        if not piece:
            return
        yield piece


def _picture(written: str, name: str, title: str) -> str:
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - a device, not a path of ours
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(written.rstrip()))
        picture = console.export_svg(title=title, code_format=_FONT_FACE.sub("", _PICTURE), unique_id=name)
    return _TEXT.sub(_in_cells, picture)


def _in_cells(text: re.Match[str]) -> str:
    """Give wide characters two cells: rich counts characters, and squeezes such a line."""
    name, x, y, length, clip, shown = text.groups()
    said = html.unescape(shown)
    cell, at, runs = float(length) / len(said), float(x), []
    for cells, run in groupby(said, cell_len):
        part = "".join(run)
        size = cell * cells * len(part)
        place = f'class="{name}" x="{at:g}" y="{y}" textLength="{size:g}" {clip}'
        runs.append(f"<text {place}>{html.escape(part)}</text>")
        at += size
    return "".join(runs) if cell_len(said) > len(said) else text[0]


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("AGENTCTX_")}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
