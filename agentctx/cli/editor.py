"""The user's editor on a text, and the file it edits."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agentctx.cli.output import note
from agentctx.errors import AgentctxError, InvalidInput

_FALLBACK = "vi"


@contextmanager
def draft(text: str) -> Iterator[Path]:
    """A private file with the text. It is removed at the end, unless the block fails with the text changed:
    then the file stays and its path is printed, so that no work is lost.
    """
    descriptor, name = tempfile.mkstemp(prefix="agentctx-edit-", suffix=".md")
    path, original = Path(name), text.encode()
    with os.fdopen(descriptor, "wb") as file:
        file.write(original)
    is_done = False
    try:
        yield path
        is_done = True
    finally:
        if is_done or not path.exists() or path.read_bytes() == original:
            path.unlink(missing_ok=True)
        else:
            note(f"your text is kept in {path}")


def edit_file(path: Path, env: Mapping[str, str] = os.environ) -> None:
    """Run $VISUAL, else $EDITOR, else vi on the file and wait until it ends.

    Raises:
        InvalidInput: the variable is not a valid command.
        AgentctxError: it cannot be started, or it failed.
    """
    command = _editor_command(env)
    try:
        with _interrupts_for_the_editor():
            code = subprocess.run([*command, str(path)], check=False).returncode  # noqa: S603 - the user's own choice
    except OSError as error:
        raise AgentctxError(
            f"The editor {command[0]!r} cannot be started: {error.strerror}.",
            hint="Set another one in $VISUAL or $EDITOR, or use --content.",
        ) from error
    if code != 0:
        raise AgentctxError(
            f"The editor {command[0]!r} exited with code {code}; nothing was saved.",
            hint="Run `agentctx edit` again.",
        )


def _editor_command(env: Mapping[str, str]) -> list[str]:
    """The words of the first that is set and not blank: $VISUAL, $EDITOR, vi."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(env.get(name, ""))
        except ValueError as error:
            raise InvalidInput(
                f"${name} is not a valid command: {str(error).lower()}.", hint=f"Close the quotes of ${name}."
            ) from error
        if words:
            return words
    return [_FALLBACK]


def edited_text(path: Path, original: str) -> str:
    """What the file holds now, without the line break that editors put at the end.

    Raises:
        InvalidInput: the file is gone or not UTF-8.
    """
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError as error:
        raise InvalidInput("The editor removed the file; nothing was saved.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"The edited text is not UTF-8 (byte {error.start}).", hint="Save it as UTF-8 in the editor."
        ) from error
    return text if original.endswith("\n") else text.removesuffix("\n")


@contextmanager
def _interrupts_for_the_editor() -> Iterator[None]:
    """Ctrl-C in the editor is the editor's. A handler, unlike SIG_IGN, is not inherited by it."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
