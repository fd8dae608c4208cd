"""Which paths `.gitignore` and `.agentctxignore` leave out, decided folder by folder on the way down.

That is how git does it: the last rule that matches a path decides, deeper files before shallower ones, and
what is below an ignored folder is never looked at. pathspec translates the patterns; how rules add up is said
here, since its own answer for a whole file of rules (`GitIgnoreSpec`) lets `*` win over a later `!*/`.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from pathspec.patterns.gitignore.base import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

GIT_FILE = ".gitignore"
OWN_FILE = ".agentctxignore"
IGNORE_FILES = (GIT_FILE, OWN_FILE)
REPOSITORY = ".git"
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
    "space": " \t\n\r\f\v",
}
"""Those that pathspec does not know by name, spelled out."""
_CLASS = re.compile(rf"\[:({'|'.join(_CLASSES)}):\]")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf".decode("latin-1")
EXCLUDE_FILE = os.path.join("info", "exclude")  # noqa: PTH118 - a relative name, not a file


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file."""

    pattern: re.Pattern[str]
    ignores: bool
    """False for a line that begins with `!`."""
    folders_only: bool
    by_name: bool
    """The pattern has no slash inside: it is about the name, in whatever folder."""
    takes_contents: bool
    """The pattern ends with `/**`: it is about everything below a folder, not about the folder."""

    def matches(self, path: str, name: str, *, is_folder: bool) -> bool:
        """Whether the rule is about this very path, relative to the folder of the ignore file."""
        if self.folders_only and not is_folder:
            return False
        subject = _as_bytes((name if self.by_name else path) + ("/" if self.folders_only else ""))
        match = self.pattern.search(subject)
        if match is None:
            return False
        # Expressions without an anchor match anything; the others match what is below a path, too.
        if not self.pattern.pattern.startswith("^"):
            return True
        return (match.end() < len(subject)) is self.takes_contents


@dataclass(frozen=True, slots=True)
class Layer:
    """The rules of one file, and the folder they are relative to."""

    folder: str
    rules: tuple[Rule, ...]
    is_of_git: bool

    def verdict(self, path: str, name: str, *, is_folder: bool) -> bool | None:
        """Whether the last rule about an absolute path ignores it; None when there is none."""
        relative = path[len(self.folder.rstrip("/")) + 1 :]
        for rule in reversed(self.rules):
            if rule.matches(relative, name, is_folder=is_folder):
                return rule.ignores
        return None


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """What holds in a folder: its own files last, those of its parents before."""

    layers: tuple[Layer, ...] = ()

    def ignores(self, path: str, name: str, *, is_folder: bool) -> bool:
        """Whether an entry of the folder is left out."""
        for layer in reversed(self.layers):
            verdict = layer.verdict(path, name, is_folder=is_folder)
            if verdict is not None:
                return verdict
        return False

    def entering(self, folder: str, names: Collection[str]) -> IgnoreRules:
        """The rules inside `folder`, which has entries of these names.

        A repository begins anew: the rules of git above it are not about it.
        """
        layers = list(self.layers)
        if REPOSITORY in names:
            layers = [layer for layer in layers if not layer.is_of_git]
            layers += _layer(folder, exclude_file(folder), is_of_git=True)
        for name in IGNORE_FILES:
            if name in names:
                layers += _layer(folder, f"{folder.rstrip('/')}/{name}", is_of_git=name == GIT_FILE)
        return replace(self, layers=tuple(layers))


def rules_above(folder: str) -> IgnoreRules:
    """The rules that the parents of `folder` have for it, from the root of its repository down."""
    rules = IgnoreRules()
    for parent in _parents_in_repository(folder):
        rules = rules.entering(parent, _names_that_matter(parent))
    return rules


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules of an ignore file, its bytes read as Latin-1. Lines that git would skip mean nothing."""
    lines = text.removeprefix(_BYTE_ORDER_MARK).split("\n")
    return tuple(rule for line in lines if (rule := _rule(line.removesuffix("\r"))) is not None)


def exclude_file(repository: str) -> str:
    """Where the rules are that a repository keeps for itself, also for a worktree or a submodule."""
    git = f"{repository.rstrip('/')}/{REPOSITORY}"
    if not os.path.isdir(git):  # noqa: PTH112 - paths are text here, they may be undecodable
        pointer = _path_in(git).removeprefix("gitdir:").strip()
        git = os.path.normpath(os.path.join(repository, pointer))  # noqa: PTH118 - the same
        common = _path_in(f"{git}/commondir")
        git = os.path.normpath(os.path.join(git, common))  # noqa: PTH118 - the same
    return f"{git}/{EXCLUDE_FILE}"


def _rule(line: str) -> Rule | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # a bracket inside brackets
            pattern = GitIgnoreSpecPattern(_CLASS.sub(lambda match: _CLASSES[match[1]], line))
    except (GitIgnorePatternError, re.error):
        return None
    if pattern.regex is None or pattern.include is None:
        return None
    glob = line.removeprefix("!").rstrip()
    inner = glob.removesuffix("/")
    return Rule(
        pattern=pattern.regex,
        ignores=pattern.include,
        folders_only=glob.endswith("/"),
        by_name="/" not in inner,
        takes_contents=inner.endswith("/**"),
    )


def _layer(folder: str, file: str, *, is_of_git: bool) -> Iterator[Layer]:
    rules = parse_rules(_text_of(file))
    if rules:
        yield Layer(folder, rules, is_of_git)


def _as_bytes(path: str) -> str:
    """A character for each byte of the path: `?` means a byte to git."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


def _text_of(file: str) -> str:
    """The bytes of a small file as Latin-1; empty when it cannot be read. Links and pipes are not opened."""
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            return ""
        with open(file, "rb") as stream:  # noqa: PTH123 - paths are text here
            return stream.read().decode("latin-1")
    except OSError:
        return ""


def _path_in(file: str) -> str:
    return os.fsdecode(_text_of(file).encode("latin-1")).strip()


def _parents_in_repository(folder: str) -> list[str]:
    """The folders from the root of the repository down to the parent of `folder`; none outside of one."""
    parents: list[str] = []
    while not _is_repository(folder):
        above = os.path.dirname(folder)  # noqa: PTH120 - paths are text here
        if above == folder:
            return []
        parents.append(above)
        folder = above
    return parents[::-1]


def _is_repository(folder: str) -> bool:
    return os.path.lexists(f"{folder.rstrip('/')}/{REPOSITORY}")


def _names_that_matter(folder: str) -> list[str]:
    wanted = (REPOSITORY, *IGNORE_FILES)
    return [name for name in wanted if os.path.lexists(f"{folder.rstrip('/')}/{name}")]
