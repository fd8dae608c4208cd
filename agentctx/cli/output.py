"""Where output goes: data to stdout, messages to stderr, colour only to a terminal that wants it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from agentctx.cli.layout import printable
from agentctx.cli.system_errors import writing_to

if TYPE_CHECKING:
    from agentctx.errors import AgentctxError

Style = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

_CODES: dict[Style, int] = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}


def put(text: str = "") -> None:
    """A line of data. Ends the command quietly, as a success, when the reader has gone (`| head`)."""
    with reader_may_leave(), writing_to("stdout"):
        print(text)


def put_json(reply: Any) -> None:
    """A wire dataclass as the one JSON document of stdout."""
    put(json.dumps(asdict(reply), ensure_ascii=not writes_unicode(), indent=2))


def logs_to_stderr() -> AbstractContextManager[object]:
    """For commands that open the database themselves: structlog writes to stdout until it is configured."""
    return redirect_stdout(sys.stderr)


def note(text: str) -> None:
    """A message beside the data."""
    print(f"note: {printable(text)}", file=sys.stderr)


def complain(error: AgentctxError) -> None:
    """What is wrong and what to do next, on stderr."""
    print(f"error: {printable(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {printable(error.hint)}", file=sys.stderr)
    if error.code == "internal" and error.request_id:
        print(f"note: the daemon's log has it as request_id {printable(error.request_id)}", file=sys.stderr)


def complain_in_json(error: AgentctxError) -> None:
    """The error as the daemon would send it, as one line of JSON on stderr."""
    body = {"code": error.code, "message": error.message, "hint": error.hint, "request_id": error.request_id}
    print(json.dumps({"error": body}), file=sys.stderr)


def paint(text: str, *styles: Style) -> str:
    """The text in colour: on a terminal or with FORCE_COLOR, never with NO_COLOR or TERM=dumb."""
    if not _is_colourful():
        return text
    codes = ";".join(str(_CODES[style]) for style in styles)
    return f"\x1b[{codes}m{text}\x1b[0m"


def line_width() -> int | None:
    """Columns of the terminal; None when stdout is none, where nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def writes_unicode() -> bool:
    """Whether stdout takes every character."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Turn a broken pipe into the end of the command: the reader had enough."""
    try:
        yield
    except BrokenPipeError:
        discard_stdout()
        raise SystemExit(0) from None


def discard_stdout() -> None:
    """Let what is still to be written to stdout go nowhere: the interpreter flushes it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _is_colourful() -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
