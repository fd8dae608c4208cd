"""Decides which paths `.gitignore` and `.agentctxignore` exclude, folder by folder on the way down.

The rules are git's: the last rule that matches a path decides, deeper ignore files take precedence over
shallower ones, and an ignored folder is never entered.

The ignore files are untrusted, so they are read only up to a limit. A folder whose ignore files exceed the
limit is not ingested at all, since the rules beyond it are unknown.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agentctx.errors import TooLarge
from agentctx.ingest import globs

GIT_FILE = ".gitignore"
OWN_FILE = ".agentctxignore"
IGNORE_FILES = (GIT_FILE, OWN_FILE)
REPOSITORY = ".git"
EXCLUDE_FILE = os.path.join("info", "exclude")  # noqa: PTH118 - a relative name, not a file
MAX_BYTES: Final = 262_144
"""Limit on the total size of the ignore files that apply in a folder."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf".decode("latin-1")
_SPECIAL = re.compile(r"[*?\[\\]")


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One line of an ignore file."""

    pattern: re.Pattern[str] | str
    """A plain string if the glob has no special characters."""
    ignores: bool
    """False for a line that starts with `!`."""
    folders_only: bool
    by_name: bool
    """The pattern has no inner slash, so it matches the name in any folder."""

    def matches(self, path: str, name: str, *, is_folder: bool) -> bool:
        """Whether the rule matches this path, given relative to the ignore file's folder."""
        if self.folders_only and not is_folder:
            return False
        subject = name if self.by_name else path
        if not subject.isascii():  # one character per byte, because git matches `?` against a byte
            subject = os.fsencode(subject).decode("latin-1")
        if isinstance(self.pattern, str):
            return self.pattern == subject
        return self.pattern.fullmatch(subject) is not None


@dataclass(frozen=True, slots=True)
class IgnoreLayer:
    """The rules of one ignore file, and the folder they are relative to."""

    folder: str
    rules: tuple[IgnoreRule, ...]
    size: int
    """Size of the ignore file in bytes."""
    is_git_rule: bool

    def verdict(self, path: str, name: str, *, is_folder: bool) -> bool | None:
        """Whether the last rule that matches the absolute path ignores it; None if no rule matches."""
        relative = path[len(self.folder.rstrip("/")) + 1 :]
        return verdict_of(self.rules, relative, name, is_folder=is_folder)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that apply in a folder: those of its parents' ignore files first, its own last."""

    layers: tuple[IgnoreLayer, ...] = ()

    def ignores(self, path: str, name: str, *, is_folder: bool) -> bool:
        """Whether to leave out this entry of the folder."""
        verdicts = (layer.verdict(path, name, is_folder=is_folder) for layer in reversed(self.layers))
        return next((verdict for verdict in verdicts if verdict is not None), False)

    def entering(self, folder: str, names: Collection[str]) -> IgnoreRules:
        """Return the rules that apply inside `folder`, whose directory entries are `names`.

        A nested repository starts over: git rules from above it do not apply inside.

        Raises:
            TooLarge: the ignore files that apply in the folder exceed `MAX_BYTES`.
        """
        layers = list(self.layers)
        files = [(f"{folder.rstrip('/')}/{name}", name == GIT_FILE) for name in IGNORE_FILES if name in names]
        if REPOSITORY in names:
            layers = [layer for layer in layers if not layer.is_git_rule]
            files.insert(0, (exclude_file(folder), True))
        for file, is_git_rule in files:
            room = MAX_BYTES - sum(layer.size for layer in layers)
            layers += _layer(folder, file, room, is_git_rule=is_git_rule)
        return replace(self, layers=tuple(layers))


def verdict_of(rules: Sequence[IgnoreRule], path: str, name: str, *, is_folder: bool) -> bool | None:
    """Whether the last rule that matches the relative path ignores it; None if no rule matches."""
    matching = (rule for rule in reversed(rules) if rule.matches(path, name, is_folder=is_folder))
    return next((rule.ignores for rule in matching), None)


def rules_above(folder: str) -> IgnoreRules:
    """Return the rules that apply to `folder` from its parents, from its repository's root down.

    Raises:
        TooLarge: as `IgnoreRules.entering`.
    """
    rules = IgnoreRules()
    for parent in _parents_in_repository(folder):
        prefix = parent.rstrip("/")
        names = [name for name in (REPOSITORY, *IGNORE_FILES) if os.path.lexists(f"{prefix}/{name}")]
        rules = rules.entering(parent, names)
    return rules


def parse_rules(text: str) -> tuple[IgnoreRule, ...]:
    """Parse an ignore file whose bytes were decoded as Latin-1, skipping the lines that git skips."""
    lines = text.removeprefix(_BYTE_ORDER_MARK).split("\n")
    return tuple(rule for line in lines if (rule := _rule(line.removesuffix("\r"))) is not None)


def exclude_file(repository: str) -> str:
    """Return the path of the repository's own exclude file, also for a worktree or a submodule."""
    git = f"{repository.rstrip('/')}/{REPOSITORY}"
    if not os.path.isdir(git):  # noqa: PTH112 - paths are text here, they may be undecodable
        pointer = _read_path(git).removeprefix("gitdir:").strip()
        git = os.path.normpath(os.path.join(repository, pointer))  # noqa: PTH118 - the same
        common = _read_path(f"{git}/commondir")
        git = os.path.normpath(os.path.join(git, common))  # noqa: PTH118 - the same
    return f"{git}/{EXCLUDE_FILE}"


def _rule(line: str) -> IgnoreRule | None:
    if line.startswith("#"):
        return None
    text = _trimmed(line.partition("\0")[0])
    glob = text.removeprefix("!")
    inner = glob.removesuffix("/")
    by_name = "/" not in inner
    path = inner if by_name else inner.removeprefix("/")
    pattern = globs.translate(path) if _SPECIAL.search(path) else path
    return IgnoreRule(pattern, text == glob, glob != inner, by_name) if pattern else None


def _trimmed(line: str) -> str:
    """Strip trailing spaces, except one that is escaped with a backslash."""
    end = len(line.rstrip(" "))
    backslashes = end - len(line[:end].rstrip("\\"))
    return line[: end + backslashes % 2]


def _layer(folder: str, file: str, room: int, *, is_git_rule: bool) -> list[IgnoreLayer]:
    text = _read_text(file)
    if len(text) > room:
        raise TooLarge(f"The ignore files have more than {MAX_BYTES:,} bytes.")
    rules = parse_rules(text)
    return [IgnoreLayer(folder, rules, len(text), is_git_rule)] if rules else []


def _read_text(file: str) -> str:
    """Read at most `MAX_BYTES` + 1 bytes of a file as Latin-1; return "" if it cannot be read.

    Do not follow links, and never block: the file may have been replaced by a pipe.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            return stream.read(MAX_BYTES + 1).decode("latin-1")
    except OSError:
        return ""


def _read_path(file: str) -> str:
    """Return the path stored in one of git's own files, or "" if its content is not a path."""
    path = os.fsdecode(_read_text(file).encode("latin-1")).strip()
    return "" if "\0" in path else path


def _parents_in_repository(folder: str) -> list[str]:
    """Return the folders from the repository's root down to the parent of `folder`, or [] outside of one."""
    parents: list[str] = []
    while not os.path.lexists(f"{folder.rstrip('/')}/{REPOSITORY}"):
        above = os.path.dirname(folder)  # noqa: PTH120 - paths are text here
        if above == folder:
            return []
        parents.append(above)
        folder = above
    return parents[::-1]
