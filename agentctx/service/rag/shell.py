"""Read a shell command: the programs that it runs, through wrappers, and the words of each. No I/O.

`sudo`, `uv run`, `ssh HOST`, `docker compose exec SERVICE`, `bash -c` and the like run another program: the
wrapper and that program are both in the result. What a lexer cannot read is split at white space.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from agentctx.service.rag.word_lists import lists
from agentctx.service.rag.word_lists import words as listed

MAX_DEPTH: Final = 6
"""How many wrappers are looked through."""
_OPERATOR: Final = frozenset("();<>|&\n")
_HEREDOC: Final = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_HERE: Final = "<<"
_STREAMS: Final = frozenset("012")


class SimpleCommand(NamedTuple):
    """One program and what it is given. A wrapper is a command of its own, without what it runs."""

    program: str
    """Its name without a folder; empty for an assignment or a redirection alone."""
    words: tuple[str, ...] = ()
    """Its arguments in order, without those of a program that it runs."""
    assignments: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    """The files into which its output is redirected."""
    folder: str = ""
    """Where it runs, as `cd` said: relative to where the whole command does, or absolute."""
    stdin: str = ""
    """The text of a here-document."""
    runs: bool = False
    """Whether it is a wrapper."""


def commands_in(text: str) -> tuple[SimpleCommand, ...]:
    """Return the programs that a shell command runs, in order. Any text has a result."""
    return tuple(_commands(text, "", MAX_DEPTH))


def _commands(text: str, folder: str, depth: int) -> Iterator[SimpleCommand]:
    text, documents = _without_documents(text.replace("\\\n", " "))
    for words in _pieces(_lexed(text)):
        stdin = "\n".join(documents.pop(0) for word in words if word == _HERE and documents)
        for command in _unwrapped(words, folder, depth):
            if command.program == "cd" and command.words:
                folder = _joined(folder, command.words[-1])
            yield command._replace(stdin=stdin)


def _without_documents(text: str) -> tuple[str, list[str]]:
    """Cut the bodies of here-documents out of a command."""
    documents: list[str] = []
    at = 0
    while found := _HEREDOC.search(text, at):
        line_end = text.find("\n", found.end())
        at = found.start() + 2
        if line_end < 0:
            break
        end = re.compile(rf"^\s*{re.escape(found[2])}\s*$", re.MULTILINE).search(text, line_end + 1)
        documents.append(text[line_end + 1 : end.start() if end else len(text)])
        after = text[end.end() :] if end else ""
        text = f"{text[: found.start()]}<< {text[found.end() : line_end]}{after}"
    return text, documents


def _lexed(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed
        return [word.strip("'\"") for word in re.split(r"[ \t\r]+|(\n)", text) if word]


def _pieces(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Split at operators; redirections stay, as `>` or `<` before their word."""
    words: list[str] = []
    is_comment = False
    for token in tokens:
        is_comment = (is_comment or token.startswith("#")) and "\n" not in token
        if is_comment:
            continue
        if not token or not _OPERATOR.issuperset(token):
            words.append(token)
        elif ">" in token or "<" in token:
            if words and words[-1] in _STREAMS:
                words.pop()
            words.append(_HERE if token == _HERE else token.strip("&|")[:1])
        else:
            yield words
            words = []
    yield words


def _unwrapped(words: Sequence[str], folder: str, depth: int) -> Iterator[SimpleCommand]:
    """Yield the command and, if it is a wrapper, what it runs."""
    words, written = _redirected(words)
    while words and (words[0] in listed("keywords") or words[0].strip("-$`") == ""):
        words = words[1:]
    given = next((at for at, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
    rest = words[given:]
    if not rest:
        if given or written:
            yield SimpleCommand("", (), tuple(words[:given]), written, folder)
        return
    program = rest[0].strip("`").rpartition("/")[2]
    command = SimpleCommand(program, tuple(rest[1:]), tuple(words[:given]), written, folder)
    at = _inner_at(program, rest) if depth else None
    if at is None:
        yield command
        yield from _script(command, depth)
        return
    inner = rest[at:]
    yield command._replace(words=tuple(rest[1:at]), runs=True)
    if program == "ssh" and len(inner) == 1:
        yield from _commands(inner[0], folder, depth - 1)
    else:
        yield from _unwrapped(inner, folder, depth - 1)


def _redirected(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    kept: list[str] = []
    written: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == ">":
            written.append(next(rest, ""))
        elif word == "<":
            kept.append(next(rest, ""))
        elif word != _HERE:
            kept.append(word)
    return [word for word in kept if word], tuple(path for path in written if path and not path.isdigit())


def _inner_at(program: str, words: Sequence[str]) -> int | None:
    """Return where the program that a wrapper runs begins; None if it runs none."""
    wrappers, name, at = _wrappers(), program, 1
    while name not in wrappers:
        at = _after_options(words, at, listed("before_subcommand"))
        longer = f"{name} {words[at]}" if at < len(words) else name
        if at == len(words) or not any(f"{key} ".startswith(f"{longer} ") for key in wrappers):
            return _exec_of_find(words) if program in {"find", "fd"} else None
        name, at = longer, at + 1
    skipped, with_value = wrappers[name]
    for _ in range(skipped + 1):
        at = _after_options(words, at, with_value)
        if skipped:
            skipped, at = skipped - 1, at + 1
    while at < len(words) and (words[at] == "--" or (name == "env" and _ASSIGNMENT.match(words[at]))):
        at += 1
    return at if at < len(words) else None


def _after_options(words: Sequence[str], at: int, values: frozenset[str]) -> int:
    """Return the position after the options at `at`; `values` are those that take one."""
    while at < len(words) and words[at].startswith("-") and words[at] not in {"--", "-m"}:
        at += 2 if words[at] in values else 1
    return at


def _exec_of_find(words: Sequence[str]) -> int | None:
    return next((at + 1 for at, word in enumerate(words[:-1]) if word in {"-exec", "-execdir", "-x"}), None)


def _script(command: SimpleCommand, depth: int) -> Iterator[SimpleCommand]:
    """Yield what `bash -c` runs."""
    if not depth or command.program not in listed("shells") | {"su", "eval"}:
        return
    for at, word in enumerate(command.words[:-1]):
        if re.fullmatch(r"-[a-z]*c", word):
            yield from _commands(command.words[at + 1], command.folder, depth - 1)
            return


def _joined(folder: str, path: str) -> str:
    return path if path.startswith(("/", "~")) or not folder else f"{folder}/{path}"


@cache
def _wrappers() -> Mapping[str, tuple[int, frozenset[str]]]:
    """Return the words before what a wrapper runs, and its options with a value."""
    return {
        name: (skipped, frozenset(options.split()))
        for names, skipped, options in lists("actions")["wrappers"]
        for name in names.split(", ")
    }
