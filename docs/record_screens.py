"""`make screens`: pictures of what a person sees, each from the real command in a pseudo-terminal.

The first argument is the folder to write to. A daemon with a few memories is started for the commands that
need one, in a folder that is removed afterwards.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from agentctx import Client

WIDTH = 112
_FONT_FACE = re.compile(r"@font-face \{\{.*?\}\}", re.DOTALL)
"""rich's pictures would load a font from elsewhere; the viewer's monospaced one does."""
PROGRAM = Path(sys.executable).with_name("agentctx")


@dataclass(frozen=True, slots=True)
class Screen:
    """One picture: its name, and the arguments of the command. The demo starts its own daemon."""

    name: str
    arguments: tuple[str, ...]
    is_alone: bool = False


SCREENS = (
    Screen("demo", ("demo",), is_alone=True),
    Screen("search", ("search", "When may I release?")),
    Screen("doctor", ("doctor",)),
    Screen("top", ("top", "--once")),
)


def main(folder: Path) -> None:
    """Write `NAME.svg` for every screen."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, _daemon(Path(home)) as environment:
        for screen in SCREENS:
            given = _plain_environment() if screen.is_alone else environment
            written = _in_terminal([str(PROGRAM), *screen.arguments], given)
            (folder / f"{screen.name}.svg").write_text(_picture(written, screen), encoding="utf-8")


@contextmanager
def _daemon(folder: Path) -> Iterator[dict[str, str]]:
    socket = folder / "agentctx.sock"
    command = [str(PROGRAM), "serve", "--data-dir", str(folder / "data"), "--socket", str(socket)]
    environment = {**_plain_environment(), "AGENTCTX_SOCKET": str(socket)}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    try:
        with Client(socket, start_timeout_s=30) as client:
            _remember(client)
        yield {**environment, "AGENTCTX_DATA_DIR": str(folder / "data")}
    finally:
        process.terminate()
        process.wait()


def _remember(client: Client) -> None:
    client.save_knowledge(
        "deploy-window", "Deploys happen on Tuesdays before noon, never during a sale.", category="rule"
    )
    client.save_knowledge("release-notes", "Every release has notes that name who to ask.", category="rule")
    client.save_observation("monday", "The staging database was slow all morning.", agent="planner")
    client.save_learning("tool:psql", error_pattern="too many connections", fix="Lower the pool's limit.")
    client.drain(30)
    for question in ("When may I release?", "slow database", "who to ask"):
        client.search(question)


def _in_terminal(command: Sequence[str], environment: dict[str, str]) -> str:
    """What the command writes to a terminal of `WIDTH` columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, WIDTH))
    with open(ours, "rb", buffering=0) as screen:  # noqa: PTH123 - a descriptor, not a path
        given = {**environment, "TERM": "xterm-256color"}
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=given)
        os.close(theirs)
        written = b"".join(_until_closed(screen))
        process.wait()
    return _of_nobody(written.decode(errors="replace").replace("\r\n", "\n"))


def _of_nobody(shown: str) -> str:
    """Folders of this run as some of the same length that are no machine's, so that no line moves."""
    mine = re.escape(tempfile.gettempdir()) + r"/[\w.-]+"
    return re.sub(mine, lambda found: "/run/agentctx".ljust(len(found[0]), "x")[: len(found[0])], shown)


def _until_closed(screen: RawIOBase) -> Iterator[bytes]:
    while True:
        try:
            piece = screen.read(65_536)
        except OSError:  # Linux says EIO when nobody has the other end any more
            return
        if not piece:
            return
        yield piece


def _picture(written: str, screen: Screen) -> str:
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - a device, not a path of ours
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(written.rstrip()))
        return console.export_svg(
            title=f"agentctx {' '.join(screen.arguments)}",
            code_format=_FONT_FACE.sub("", CONSOLE_SVG_FORMAT),
            unique_id=screen.name,
        )


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("AGENTCTX_")}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
