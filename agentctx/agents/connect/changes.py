"""Computes the new content of a file from its current content and its record. No I/O."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agentctx.agents.connect.connected_files import ConnectedFile, digest
from agentctx.agents.connect.edits import ConfigEdit, apply, revert
from agentctx.errors import ConfigInvalid


class FileChange(NamedTuple):
    """The change of one file. `after` None deletes the file; `written` is its new record, if any."""

    path: Path
    before: bytes | None
    after: bytes | None
    written: ConnectedFile | None

    def diff(self) -> str:
        """The change as a unified diff."""
        before, after = (
            (data or b"").decode("utf-8", "replace").splitlines(keepends=True)
            for data in (self.before, self.after)
        )
        return "".join(
            line if line.endswith("\n") else f"{line}\n"
            for line in difflib.unified_diff(before, after, str(self.path), str(self.path))
        )


def connect_change(
    path: Path,
    agent: str,
    current: bytes | None,
    known: ConnectedFile | None,
    edits: Sequence[ConfigEdit],
    *,
    project: Path | None = None,
) -> FileChange | None:
    """Return the change that applies the edits to a file of `project`, or None if they are already there.

    Raises:
        ConfigInvalid: the file cannot be edited safely.
    """
    text = _text(path, current)
    is_same = known is None or tuple(edits) == known.edits
    if is_same and _with_path(path, lambda: apply(text, edits)) == text:
        return None
    original = current if known is None else _original(path, current, known)
    _check_whole_files(path, original, edits)
    base = original if known is None else _base_content(path, current, known, edits, original)
    after = _with_path(path, lambda: apply(_text(path, base), edits)).encode()
    folders = known.folders if known else ()
    written = ConnectedFile(agent, original, digest(after), tuple(edits), folders, project)
    return FileChange(path, current, after, written)


def disconnect_change(path: Path, current: bytes | None, known: ConnectedFile) -> FileChange:
    """Return the change that removes our edits from a file, keeping later edits of the user.

    Raises:
        ConfigInvalid: the file cannot be edited safely.
    """
    return FileChange(path, current, None if current is None else _original(path, current, known), None)


def _base_content(
    path: Path,
    current: bytes | None,
    known: ConnectedFile,
    edits: Sequence[ConfigEdit],
    original: bytes | None,
) -> bytes | None:
    """Return the content to edit again: the original, or the user's version without our stale edits."""
    if current is None or digest(current) == known.digest:
        return original
    targets = {(edit.kind, edit.path) for edit in edits}
    stale = [edit for edit in known.edits if (edit.kind, edit.path) not in targets]
    before = _text(path, known.original) or ""
    rest = _with_path(path, lambda: revert(_text(path, current) or "", stale, original=before) or "")
    return rest.encode()


def _original(path: Path, current: bytes | None, known: ConnectedFile) -> bytes | None:
    """Return the file's content without our edits."""
    if current is None:
        return None
    if digest(current) == known.digest:
        return known.original
    if any(edit.kind == "file" for edit in known.edits):
        raise ConfigInvalid(
            f"{path} was edited since `agentctx connect` wrote it.",
            hint="Remove it yourself, then try again.",
        )
    before = _text(path, known.original) or ""
    rest = _with_path(path, lambda: revert(_text(path, current) or "", known.edits, original=before) or "")
    if known.original is None:
        with suppress(ValueError):
            if not rest.strip() or json.loads(rest) == {}:
                return None
    return rest.encode()


def _check_whole_files(path: Path, original: bytes | None, edits: Sequence[ConfigEdit]) -> None:
    if original is not None and any(
        edit.kind == "file" and str(edit.value).encode() != original for edit in edits
    ):
        raise ConfigInvalid(
            f"{path} exists, and `agentctx connect` did not write it.", hint="Remove it, then try again."
        )


def _text(path: Path, data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigInvalid(f"{path} is not UTF-8.", hint="Convert it, then try again.") from None


def _with_path(path: Path, edit: Callable[[], str]) -> str:
    """Run an edit, prefixing its error with the file's path."""
    try:
        return edit()
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{path}: {error.message}", hint=error.hint) from None
