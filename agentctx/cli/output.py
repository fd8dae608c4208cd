"""Where output goes: data to stdout, messages to stderr, colour only to a terminal that wants it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from agentctx.cli.layout import printable

if TYPE_CHECKING:
    from agentctx.errors import AgentctxError

Style = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

_CODES: dict[Style, int] = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}


def put(text: str = "") -> None:
    """A line of data."""
    print(text)


def put_json(reply: Any) -> None:
    """A wire dataclass as the one JSON document of stdout."""
    as_ascii = not (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(asdict(reply), ensure_ascii=as_ascii, indent=2))


def note(text: str) -> None:
    """A message beside the data."""
    print(f"note: {printable(text)}", file=sys.stderr)


def complain(error: AgentctxError) -> None:
    """What is wrong and what to do next, on stderr."""
    print(f"error: {printable(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {printable(error.hint)}", file=sys.stderr)


def paint(text: str, *styles: Style) -> str:
    """The text in colour, if stdout is a terminal and neither NO_COLOR nor TERM=dumb forbid it."""
    if not _is_colourful():
        return text
    codes = ";".join(str(_CODES[style]) for style in styles)
    return f"\x1b[{codes}m{text}\x1b[0m"


def line_width() -> int | None:
    """Columns of the terminal; None when stdout is none, where nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _is_colourful() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
