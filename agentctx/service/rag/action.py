"""The names in what an agent is about to do: programs, flags, paths, hosts and operations. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from posixpath import join, normpath
from typing import Final

from agentctx.service.rag.shell import SimpleCommand, commands_in
from agentctx.service.rag.word_lists import lists, words
from agentctx.service.rag.word_match import stem_of
from agentctx.wire import ActionKind

MAX_DOCUMENT_CHARS: Final = 2_000
"""How much of a here-document is read."""
_WORD = re.compile(r"[a-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FLAG = re.compile(r"-{1,2}[A-Za-z]")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z-]*")
_SCHEME = re.compile(r"^[a-z][a-z0-9+]*://")
_HARMLESS = re.compile(r"--(?:help|dry-run|check|syntax-check|list|collect-only)\b")
_IN_PLACE = re.compile(r"-[A-Za-z]*i|--in-?place|--write|-w$|--fix|-o$")
_TEMPORARY: Final = ("/tmp/", "/dev/")  # noqa: S108 - only compared


@dataclass(slots=True)
class ActionNames:
    """What an action names. Words and stems are in lower case."""

    folder: str
    is_reading: bool = False
    """Whether the action changes nothing."""
    is_file: bool = False
    """Whether it is the reading or writing of a file, by a tool."""
    programs: set[str] = field(default_factory=set)
    flags: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    """Arguments: hosts, targets, values, paths as written."""
    stems: set[str] = field(default_factory=set)
    operations: set[str] = field(default_factory=set)
    things: set[str] = field(default_factory=set)
    paths: list[tuple[str, ...]] = field(default_factory=list)
    """The parts of absolute paths."""
    named: str = ""
    """Words and programs, one a line."""
    text: str = ""
    """The action in words to search for."""

    @classmethod
    def of(cls, kind: ActionKind, text: str, folder: str = "/") -> ActionNames:
        """Return the names in a command (`run`) or the path of a file, in the folder where it happens."""
        names = cls(normpath(folder or "/"))
        if kind == "run":
            names._run(commands_in(text))
        else:
            names._file(text, is_reading=kind == "read")
        names.named = "\n".join(names.words | names.programs)
        return names

    def _file(self, path: str, *, is_reading: bool) -> None:
        full = normpath(join(self.folder, path))
        inside = full.removeprefix(f"{self.folder.rstrip('/')}/")
        self.is_reading, self.is_file, self.text = is_reading, True, inside
        self.paths = [parts_of(full)]
        self.words = {inside.lower(), inside.rpartition("/")[2].lower()}
        self.stems = set(stems_in(inside))
        self.operations = set() if is_reading else {"modify"}

    def _run(self, commands: Iterable[SimpleCommand]) -> None:
        shown: list[str] = []
        self.is_reading = True
        for command in commands:
            is_reading = command.runs or _is_reading(command)
            self.is_reading = self.is_reading and is_reading
            self._add(command, is_reading=is_reading)
            if command.program not in words("neutral"):
                given = [*command.words, *command.assignments, command.stdin[:200]]
                shown.append(" ".join([command.program, *given]))
        self.text = "; ".join(shown) or " ".join(self.words)

    def _add(self, command: SimpleCommand, *, is_reading: bool) -> None:
        base = normpath(join(self.folder, command.folder))
        program = command.program.lower()
        self.programs |= {program} if program else set()
        for word in _telling_words(command):
            self.operations |= operations_of(word)
            self.things |= things_of(word)
        self.stems |= stems_in(program) | stems_in(command.stdin[:MAX_DOCUMENT_CHARS])
        is_shell = command.program in words("shells")
        for before, word in pairwise(("", *command.words)):
            is_text = is_shell or before in words("prose")
            if not (is_text and " " in word):
                self._argument(word, base)
        for assignment in command.assignments:
            name, _, value = assignment.partition("=")
            self.words |= {name.lower(), assignment.lower()}
            self._argument(value, base)
        for path in command.written:
            self._argument(path, base)
        if not is_reading and program not in words("neutral"):
            self.paths.append(parts_of(base))

    def _argument(self, word: str, base: str) -> None:
        if _FLAG.match(word):
            name, _, word = word.partition("=")
            self.flags |= set(_flags_in(name))
            self.stems |= stems_in(name) if len(name) > 3 else set()
        if word:
            self.words |= {word.lower(), *(each.strip("'\"(),;").lower() for each in word.split())}
            self.stems |= stems_in(word)
            if not word.split()[1:]:
                self.paths.append(parts_of(normpath(join(base, _SCHEME.sub("/", word)))))


def stems_in(text: str) -> frozenset[str]:
    """Return the stems of the words in a name or a text; `fooBar` and `foo-bar` have two."""
    return frozenset(stem_of(word) for word in _WORD.findall(_CAMEL.sub(" ", text).lower()))


def parts_of(path: str) -> tuple[str, ...]:
    """Return the parts of a path in lower case."""
    return tuple(part for part in path.lower().split("/") if part)


def operations_of(word: str) -> frozenset[str]:
    """Return the operations that a word in lower case means."""
    return _by_stem("operations").get(stem_of(word), frozenset())


def things_of(word: str) -> frozenset[str]:
    """Return the things that a word in lower case names."""
    return _by_stem("things").get(stem_of(word), frozenset())


@cache
def _by_stem(listed: str) -> Mapping[str, frozenset[str]]:
    """Return for each stem the first words of the lines that have it."""
    found: dict[str, frozenset[str]] = {}
    for alike in map(str.split, lists("actions")[listed]):
        for stem in map(stem_of, alike):
            found[stem] = found.get(stem, frozenset()) | {alike[0]}
    return found


def _flags_in(name: str) -> Iterator[str]:
    """Yield a flag, and those that it may bundle: `-rf` is `-r` and `-f`."""
    yield name
    if re.fullmatch(r"-[A-Za-z]{2,4}", name):
        yield from (f"-{letter}" for letter in name[1:])


def _telling_words(command: SimpleCommand) -> Iterator[str]:
    """Yield the words that say what a command does: program, subcommands, long flags, queries."""
    yield command.program.lower()
    if _edits_in_place(command):
        yield "edit"
    if _writes(command):
        yield "write"
    for word in [word for word in command.words if _PLAIN.fullmatch(word)][:4]:
        yield from {word.lower(), *word.lower().split("-")}
    for word in command.words:
        if word.startswith("--"):
            yield from word.partition("=")[0].strip("-").split("-")
        elif " " in word or word.isupper():
            yield from _WORD.findall(word.lower())[:1]
    yield from (word.lower() for word in re.findall(r"[A-Za-z]+", command.stdin[:MAX_DOCUMENT_CHARS]))


def _is_reading(command: SimpleCommand) -> bool:
    """Return whether a command changes nothing, as far as its words say."""
    if _writes(command):
        return False
    if not command.program or any(_HARMLESS.match(word) for word in command.words):
        return True
    if command.program in words("reading_programs"):
        return not _edits_in_place(command)
    plain = [word for word in command.words if not word.startswith("-")][:3]
    first = [word.lower().partition("-")[0] for word in plain if _PLAIN.fullmatch(word)]
    queries = [word.lower() for word in command.words if " " in word or word.isupper()]
    first += [found for word in queries for found in _WORD.findall(word)[:1]]
    reading = words("reading_subcommands")
    return any(word.startswith("\\d") for word in command.words) or not reading.isdisjoint([*first, *plain])


def _writes(command: SimpleCommand) -> bool:
    return any(not path.startswith(_TEMPORARY) for path in command.written)


def _edits_in_place(command: SimpleCommand) -> bool:
    return command.program in words("filters") and any(map(_IN_PLACE.match, command.words))
