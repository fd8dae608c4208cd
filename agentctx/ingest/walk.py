"""Walks folders for files that may be read, without recursion and without following links.

Paths are absolute, normalized and decoded with `os.fsdecode`; `names.escape_path` makes them printable.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from agentctx.errors import InvalidInput, TooLarge
from agentctx.ingest.ignore import IgnoreRule, IgnoreRules, parse_rules, rules_above, verdict_of
from agentctx.ingest.names import MAX_SOURCE_CHARS, is_within

VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".pijul", "_darcs", "CVS"})
DEFAULT_MAX_BYTES = 10_000_000
TOO_LONG = f"its path is longer than {MAX_SOURCE_CHARS:,} characters"
_OF_EDITOR = re.compile(
    r"""(?s: .*~ | \#.*\# | \.\#.* | \.~lock\..*\# | ~\$.*      # Emacs, Vim, nano, Kate; office programs
      | \..*\.sw[a-z] | 4913 | \..*\.kate-swp               # Vim, nano, Kate
      | .*___jb_(?:tmp|old|bak)___ | .*\.vsctmp             # JetBrains, Visual Studio Code
      | \.goutputstream-.* | \.tmp.* | .*\.tmp(?:[-._]?[0-9]+)* # GNOME, and what writes and renames
    )""",
    re.VERBOSE,
)
"""Names of backups, and of files that exist only while an editor saves."""
_UNITS = {
    "": 1,
    "b": 1,
    "kb": 1_000,
    "mb": 1_000_000,
    "gb": 1_000_000_000,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z]{0,3})")


FolderIdentity: TypeAlias = tuple[int, int]
"""The device and inode of a folder; others when it is replaced, or a disk is mounted there or unmounted."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to look at. `modified` is nanoseconds since the epoch."""

    path: str
    size: int
    modified: int
    is_named: bool = False
    """Whether the file itself was an argument; only then may it be a link."""
    folder: FolderIdentity | None = None
    """The folder in which it was found."""


@dataclass(frozen=True, slots=True)
class ExcludedPath:
    """A file or folder that is excluded, and the reason: `hidden`, `ignored`, `excluded` …"""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnreadablePath:
    """A file or folder that the system does not let us read."""

    path: str
    problem: str


WalkItem: TypeAlias = FoundFile | ExcludedPath | UnreadablePath


@dataclass(frozen=True, slots=True)
class WalkSelection:
    """Which files of a folder to take. Globs have `.gitignore` syntax and are relative to the argument."""

    hidden: bool = False
    ignore_files: bool = True
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_bytes: int = DEFAULT_MAX_BYTES


class _Folder(NamedTuple):
    """A folder still to be listed."""

    path: str
    rules: IgnoreRules
    """The rules from the folders above."""
    is_included: bool
    """Whether a glob includes everything in the folder."""


@dataclass(frozen=True, slots=True)
class _Walk:
    """The state of one argument's walk. Only `pending` changes along the way."""

    root: str
    selection: WalkSelection
    scopes: Collection[str]
    include: tuple[IgnoreRule, ...]
    exclude: tuple[IgnoreRule, ...]
    pending: list[_Folder] = field(default_factory=list)


def walk(root: str, selection: WalkSelection, scopes: Collection[str] | None = None) -> Iterator[WalkItem]:
    """Yield everything at and below `root`, sorted by name, a folder's files before its subfolders.

    `root` itself is walked even if it is hidden, ignored or a link. If `scopes` (paths at or below `root`)
    are given, only paths at, below or on the way to a scope are looked at.
    """
    task = _Walk(
        root,
        selection,
        (root,) if scopes is None else scopes,
        _globs(selection.include),
        _globs(selection.exclude),
    )
    try:
        status = os.stat(root)  # noqa: PTH116 - paths are text here, they may be undecodable
    except OSError as error:
        yield UnreadablePath(root, error_text(error))
        return
    if os.path.basename(root) in VERSION_CONTROL:  # noqa: PTH119 - the same
        yield ExcludedPath(root, "version control")
    elif stat.S_ISDIR(status.st_mode):
        try:
            rules = rules_above(root) if selection.ignore_files else IgnoreRules()
        except TooLarge as error:
            yield ExcludedPath(root, error.message)
            return
        task.pending.append(_Folder(root, rules, is_included=False))
        while task.pending:
            yield from _list(task, task.pending.pop())
    else:
        yield _named_file(task, status)


def _globs(given: Sequence[str]) -> tuple[IgnoreRule, ...]:
    return parse_rules(os.fsencode("\n".join(given)).decode("latin-1"))


def folder_identity(path: str) -> FolderIdentity | None:
    """Return the identity of a folder, or None if it is not a folder or cannot be accessed."""
    try:
        status = os.stat(path)  # noqa: PTH116 - paths are text here, they may be undecodable
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def error_text(error: OSError) -> str:
    """Return the system's error message without the path."""
    return (error.strerror or str(error)).lower()


def _named_file(task: _Walk, status: os.stat_result) -> WalkItem:
    name = os.path.basename(task.root)  # noqa: PTH119 - the same
    if verdict_of(task.exclude, name, name, is_folder=False):
        return ExcludedPath(task.root, "excluded")
    if task.include and not verdict_of(task.include, name, name, is_folder=False):
        return ExcludedPath(task.root, "not included")
    folder = folder_identity(os.path.dirname(task.root))  # noqa: PTH120 - the same
    return _file(task.root, status, task.selection, folder, is_named=True)


def _list(task: _Walk, folder: _Folder) -> Iterator[WalkItem]:
    try:
        with os.scandir(folder.path) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        yield UnreadablePath(folder.path, error_text(error))
        return
    identity = folder_identity(folder.path)
    if task.selection.ignore_files:
        names = {entry.name for entry in entries}
        try:
            folder = folder._replace(rules=folder.rules.entering(folder.path, names))
        except TooLarge as error:
            yield ExcludedPath(folder.path, error.message)
            return
    below: list[_Folder] = []
    for entry in entries:
        if not any(is_within(entry.path, scope) or is_within(scope, entry.path) for scope in task.scopes):
            continue
        try:
            seen = _entry(task, entry, folder, identity)
        except FileNotFoundError:
            continue
        except OSError as error:
            seen = UnreadablePath(entry.path, error_text(error))
        if isinstance(seen, _Folder):
            below.append(seen)
        else:
            yield seen
    task.pending.extend(reversed(below))


def _entry(
    task: _Walk, entry: os.DirEntry[str], folder: _Folder, identity: FolderIdentity | None
) -> WalkItem | _Folder:
    is_folder = entry.is_dir(follow_symlinks=False)
    if reason := _exclusion_reason(task, entry, folder.rules, is_folder=is_folder):
        return ExcludedPath(entry.path, reason)
    relative = _relative(task, entry)
    verdict = verdict_of(task.include, relative, entry.name, is_folder=is_folder)
    is_included = folder.is_included or verdict is True
    if is_folder:
        if len(entry.path) >= MAX_SOURCE_CHARS:
            return ExcludedPath(entry.path, TOO_LONG)
        return _Folder(entry.path, folder.rules, is_included)
    if task.include and not is_included:
        return ExcludedPath(entry.path, "not included")
    if not verdict and _OF_EDITOR.fullmatch(entry.name):
        return ExcludedPath(entry.path, "an editor's copy")
    return _file(entry.path, entry.stat(follow_symlinks=False), task.selection, identity)


def _exclusion_reason(
    task: _Walk, entry: os.DirEntry[str], rules: IgnoreRules, *, is_folder: bool
) -> str | None:
    if entry.name in VERSION_CONTROL:
        return "version control"
    if entry.name.startswith(".") and not task.selection.hidden:
        return "hidden"
    if rules.ignores(entry.path, entry.name, is_folder=is_folder):
        return "ignored"
    if verdict_of(task.exclude, _relative(task, entry), entry.name, is_folder=is_folder):
        return "excluded"
    return "symbolic link" if entry.is_symlink() else None


def _relative(task: _Walk, entry: os.DirEntry[str]) -> str:
    return entry.path[len(task.root.rstrip("/")) + 1 :]


def _file(
    path: str,
    status: os.stat_result,
    selection: WalkSelection,
    folder: FolderIdentity | None,
    *,
    is_named: bool = False,
) -> WalkItem:
    if not stat.S_ISREG(status.st_mode):
        return ExcludedPath(path, "not a regular file")
    if status.st_size > selection.max_bytes:
        return ExcludedPath(path, f"larger than {selection.max_bytes:,} bytes")
    return FoundFile(path, status.st_size, status.st_mtime_ns, is_named, folder)


def parse_size(text: str) -> int:
    """Parse a size such as `500`, `200kB`, `10MB` or `1.5 GiB` into bytes. Raises `InvalidInput`."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise InvalidInput(
            f"Invalid size {text[:40]!r}.", hint="Use a number with kB, MB or GB, for example 10MB."
        )
    return int(float(match[1]) * _UNITS[match[2]])
