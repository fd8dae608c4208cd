"""The names in what an agent is about to do: programs, flags, paths, hosts and operations. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from posixpath import join, normpath
from typing import Final, Literal, NamedTuple, TypeAlias

from agentctx.service.rag.shell import SHELLS, SimpleCommand, commands_in
from agentctx.service.rag.word_match import stem_of
from agentctx.wire import ActionKind

PathUse: TypeAlias = Literal["written", "used", "read"]

MAX_DOCUMENT_CHARS: Final = 2_000
"""How much of a here-document is read."""
_WORD = re.compile(r"[a-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FLAG = re.compile(r"-{1,2}[A-Za-z]")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z-]*")
_SCHEME = re.compile(r"^[a-z][a-z0-9+]*://")
_EXTENSION = re.compile(r"\.(?:py|sh|js|ts|rb|pl|exe)$")
_HARMLESS = re.compile(r"--(?:help|dry-run|check|syntax-check|list|collect-only)\b")
_IN_PLACE = re.compile(r"-[A-Za-z]*i|--in-place|--inplace|--write|-w$|--fix|-o$")
_FILTERS: Final = frozenset({"sed", "yq", "jq", "perl", "awk"})
_NEUTRAL: Final = frozenset({"cd", "export", "set", "source", "for", "echo", "true", "sleep"})
_TEMPORARY: Final = ("/tmp/", "/dev/")  # noqa: S108 - only compared
_TEXT_OPTIONS: Final = frozenset({"-m", "--message", "--title", "--body"})
"""Options whose value is prose."""
_INPUT_OPTIONS: Final = frozenset(
    """
    -f --file --filename --values --config -c --var-file --env-file -i --inventory --key -F --from-file
    """.split()  # noqa: SIM905 - a literal would take one line per word
)
"""Options whose file is read."""
_WRITING: Final = frozenset({"remove", "modify", "format", "move"})
"""Operations that change the files that a command names."""
_COPYING: Final = frozenset({"cp", "install", "rsync", "scp", "ln"})


class Operations(NamedTuple):
    """What words of commands and of people mean the same, and which say that nothing is changed."""

    by_stem: dict[str, frozenset[str]]
    things: dict[str, frozenset[str]]
    said: dict[str, tuple[str, ...]]
    """Words for each operation."""
    reading_programs: frozenset[str]
    reading_subcommands: frozenset[str]


class UsedPath(NamedTuple):
    """The parts of an absolute path, in lower case, and how the action uses it."""

    parts: tuple[str, ...]
    use: PathUse


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
    paths: list[UsedPath] = field(default_factory=list)
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
        self.paths = [UsedPath(parts_of(full), "read" if is_reading else "written")]
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
            if command.program not in _NEUTRAL and (command.runs or not _is_pipe_end(command)):
                shown.append(
                    " ".join([command.program, *command.words, *command.assignments, command.stdin[:200]])
                )
        self.text = "; ".join(shown) or " ".join(self.words)

    def _add(self, command: SimpleCommand, *, is_reading: bool) -> None:
        base = normpath(join(self.folder, command.folder))
        program = _EXTENSION.sub("", command.program.lower())
        self.programs |= {program} if program else set()
        said = list(_operation_words(command))
        known = operations()
        does = {each for word in said for each in known.by_stem.get(stem_of(word), ())}
        self.operations |= does
        self.things |= {each for word in said for each in known.things.get(stem_of(word), ())}
        self.stems |= stems_in(program) | stems_in(command.stdin[:MAX_DOCUMENT_CHARS])
        use: PathUse = "read" if is_reading else "written" if does & _WRITING else "used"
        before = ""
        arguments = [word for word in command.words if not (command.program in SHELLS and " " in word)]
        for at, word in enumerate(arguments):
            if not (before in _TEXT_OPTIONS and " " in word):
                is_target = command.program not in _COPYING or at == len(arguments) - 1
                self._argument(word, base, "read" if before in _INPUT_OPTIONS or not is_target else use)
            before = word
        for assignment in command.assignments:
            name, _, value = assignment.partition("=")
            self.words |= {name.lower(), assignment.lower()}
            self._argument(value, base, "read")
        for path in command.written:
            self._argument(path, base, "written")
        if not is_reading and program not in _NEUTRAL:
            self.paths.append(UsedPath(parts_of(base), "used"))

    def _argument(self, word: str, base: str, use: PathUse) -> None:
        if _FLAG.match(word):
            name, _, value = word.partition("=")
            self.flags |= set(_flags_in(name))
            self.stems |= stems_in(name) if len(name) > 3 else set()
            word, use = value, "used" if use == "written" else use
        if not word:
            return
        self.words |= {word.lower(), *(each.strip("'\"(),;").lower() for each in word.split())}
        self.stems |= stems_in(word)
        if " " not in word and "\n" not in word:
            self.paths.append(UsedPath(parts_of(normpath(join(base, _SCHEME.sub("/", word)))), use))


@lru_cache(8_192)
def stems_in(text: str) -> frozenset[str]:
    """Return the stems of the words in a name or a text; `fooBar` and `foo-bar` have two."""
    return frozenset(stem_of(word) for word in _WORD.findall(_CAMEL.sub(" ", text).lower()))


def parts_of(path: str) -> tuple[str, ...]:
    """Return the parts of a path in lower case."""
    return tuple(part for part in path.lower().split("/") if part)


def _flags_in(name: str) -> Iterator[str]:
    """Yield a flag, and those that it may bundle: `-n1` is `-n`, `-rf` is `-r` and `-f`."""
    yield name
    if re.fullmatch(r"-[A-Za-z]\d+", name):
        yield name[:2]
    elif re.fullmatch(r"-[A-Za-z]{2,4}", name):
        yield from (f"-{letter}" for letter in name[1:])


def _operation_words(command: SimpleCommand) -> Iterator[str]:
    """Yield the words that say what a command does: program, subcommands, long flags, queries."""
    yield command.program.lower()
    if command.program in _FILTERS and any(map(_IN_PLACE.match, command.words)):
        yield "edit"
    if any(not path.startswith(_TEMPORARY) for path in command.written):
        yield "write"
    plain = [word for word in command.words if _PLAIN.fullmatch(word)]
    for word in plain[:4]:
        yield word.lower()
        yield from word.lower().split("-")
    for word in command.words:
        if word.startswith("--"):
            yield from word.partition("=")[0].strip("-").split("-")
        elif " " in word or word.isupper():
            yield from _WORD.findall(word.lower())[:1]
    yield from (word.lower() for word in re.findall(r"[A-Za-z]+", command.stdin[:MAX_DOCUMENT_CHARS]))


def _is_reading(command: SimpleCommand) -> bool:
    """Return whether a command changes nothing, as far as its words say."""
    if any(not path.startswith(_TEMPORARY) for path in command.written):
        return False
    if not command.program or any(_HARMLESS.match(word) for word in command.words):
        return True
    reading = operations().reading_subcommands
    if command.program in operations().reading_programs:
        return not (command.program in _FILTERS and any(map(_IN_PLACE.match, command.words)))
    plain = [word.lower() for word in command.words if not word.startswith("-")]
    if any(
        word in reading or word.partition("-")[0] in reading for word in plain[:3] if _PLAIN.fullmatch(word)
    ):
        return True
    queries = [word for word in command.words if " " in word or word.isupper() or word.startswith("\\d")]
    return any(word.startswith("\\d") or set(_WORD.findall(word.lower())[:1]) & reading for word in queries)


def _is_pipe_end(command: SimpleCommand) -> bool:
    return command.program in {"head", "tail", "sort", "uniq", "wc", "cut", "tr", "tee", "grep"}


@cache
def operations() -> Operations:
    """Read the packaged list."""
    text = files("agentctx.service.rag").joinpath("operations.txt").read_text(encoding="utf-8")
    kinds: dict[str, dict[str, frozenset[str]]] = {"": {}, "@": {}}
    said: dict[str, tuple[str, ...]] = {}
    reading: dict[str, set[str]] = {"=": set(), "+": set()}
    for line in text.splitlines():
        mark, words = (line[0], line[1:].split()) if line[0] in "#@=+" else ("", line.split())
        if not mark:
            said[words[0]] = tuple(words)
        if mark in reading:
            reading[mark] |= set(words)
        for word in words if mark in kinds else ():
            known = kinds[mark]
            known[stem_of(word)] = known.get(stem_of(word), frozenset()) | {words[0]}
    return Operations(kinds[""], kinds["@"], said, frozenset(reading["="]), frozenset(reading["+"]))
