"""Writes output: data to stdout, messages to stderr, colour only to a terminal that supports it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import asdict
from typing import Any, Literal

from agentctx.cli.layout import columns, printable, truncate
from agentctx.errors import AgentctxError

Style = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

_CODES: dict[Style, int] = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
_NO_PERMISSION = "Change the permissions of the file and its parent folders, or run this as another user."
_NO_SPACE = "Free disk space or choose another location, then run the command again."
_HINTS = {
    errno.EMSGSIZE: "Give another file; no export of agentctx has such lines.",
    errno.EACCES: _NO_PERMISSION,
    errno.EPERM: _NO_PERMISSION,
    errno.EROFS: "The file system is read-only; choose another location.",
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EFBIG: "The file size limit was reached; `ulimit -f` shows it.",
    errno.ENOENT: "Check the name.",
    errno.ENOTDIR: "Check the path: part of it is not a folder.",
    errno.EISDIR: "It is a folder; give a file.",
    errno.ELOOP: "The symbolic links in the path form a loop; give the file itself.",
    errno.EMFILE: "Too many files are open; `ulimit -n` shows the limit.",
    errno.EBADF: "The stream is closed; do not close it with `<&-` or `>&-`.",
}
_DEFAULT_HINT = "Run the command again; `agentctx doctor` checks the daemon's files."


def print_line(text: str = "") -> None:
    """Print a line of data. If the reader has closed the pipe (`| head`), exit quietly with success."""
    with writing_to("stdout"):
        print(text)


def print_json(reply: Any, indent: int | None = 2) -> None:
    """Print a wire dataclass, or its values by name, as a JSON document on stdout."""
    document = reply if isinstance(reply, dict) else asdict(reply)
    print_line(json.dumps(document, ensure_ascii=not writes_unicode(), indent=indent))


def show(reply: Any, lines: Iterable[str], as_json: bool, *notes: str | None) -> None:
    """Print a wire dataclass as JSON, or else its lines for people, then the notes that are not empty."""
    if as_json:
        print_json(reply)
        return
    for line in lines:
        print_line(line)
    for note in filter(None, notes):
        print_note(note)


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], limit: int | None, *, right: Collection[int] = ()
) -> list[str]:
    """Return aligned rows below a dim header, each cut to `limit` columns (None: whole)."""
    head, *lines = (truncate(line, limit) for line in columns([header, *rows], right=right))
    return [paint(head, "dim"), *lines]


def logs_to_stderr() -> AbstractContextManager[object]:
    """Redirect logs for commands that open the database: until configured, structlog writes to stdout."""
    return redirect_stdout(sys.stderr)


def print_note(text: str) -> None:
    """Print a note on stderr."""
    print(f"note: {printable(text)}", file=sys.stderr)


@contextmanager
def progress_line() -> Iterator[Callable[[object], None]]:
    """Yield a function that shows progress on stderr: in place on a terminal, else a note for each call."""
    if not sys.stderr.isatty():
        yield lambda progress: print_note(str(progress))
        return
    from rich.console import Console
    from rich.status import Status

    with Status("", console=Console(stderr=True), spinner="line") as status:
        yield lambda progress: status.update(str(progress))


def print_error(error: AgentctxError, *, as_json: bool = False) -> None:
    """Print the error and its hint on stderr; as JSON on one line, in the daemon's format."""
    if as_json:
        names = ("code", "message", "hint", "request_id")
        print(json.dumps({"error": {name: getattr(error, name) for name in names}}), file=sys.stderr)
        return
    print(f"error: {printable(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {printable(error.hint)}", file=sys.stderr)
    if error.code == "internal" and error.request_id:
        print(f"note: see request_id {printable(error.request_id)} in the daemon's log", file=sys.stderr)


def paint(text: str, *styles: Style) -> str:
    """Return the text in colour on a terminal or with FORCE_COLOR, but never with NO_COLOR or TERM=dumb."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    if is_plain or not (sys.stdout.isatty() or os.environ.get("FORCE_COLOR")):
        return text
    codes = ";".join(str(_CODES[style]) for style in styles)
    return f"\x1b[{codes}m{text}\x1b[0m"


def line_width() -> int | None:
    """Return the columns of the terminal, or None if stdout is not one, so that nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def writes_unicode() -> bool:
    """Return whether stdout can encode every character."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


def discard_stdout() -> None:
    """Discard buffered output, which the interpreter would otherwise flush to the broken pipe on exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def convert_os_error(error: OSError, name: str | None = None) -> AgentctxError:
    """Convert the error for a user. `name` stands in if the error names no file."""
    paths = [os.fsdecode(path) for path in (error.filename, error.filename2) if isinstance(path, str | bytes)]
    what = " to ".join(paths) or name or "The operating system reports"
    return AgentctxError(f"{what}: {error.strerror or error}.", hint=hint_of(error))


def hint_of(error: OSError) -> str:
    """Return what the user should do next."""
    return _HINTS.get(error.errno or 0, _DEFAULT_HINT)


@contextmanager
def writing_to(name: str) -> Iterator[None]:
    """Exit with success on a broken pipe: the reader needs no more. Convert other errors of the system.

    Raises:
        AgentctxError: something could not be written to `name`.
    """
    try:
        yield
    except BrokenPipeError:
        discard_stdout()
        raise SystemExit(0) from None
    except OSError as error:
        raise convert_os_error(error, f"{name} cannot be written") from error
