"""How many steps a regex with bounds may take for a character of a text, with all its backtracking.

An estimate from above. A repeat that is followed by what cannot be in it ends in one place, as in `a{0,9}-`,
and what follows is tried once; one that could as well have gone on, as in `a{0,9}a{0,9}-`, tries what follows
for each number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, takewhile
from math import prod
from typing import Final, TypeAlias

from agentctx.redaction.bounds import TOKEN, counts

MOST_STEPS: Final = 200_000
"""Of a rule. The most of ours takes 155,005."""
MOST_PARTS: Final = 100
"""Groups and repeats of a regex. Each is a step of a recursion."""
ENDLESS: Final = 10**18
"""What is said of more steps than anybody counts."""

_ASCII: Final = [*map(chr, range(0x80))]
_OTHERS: Final = ["\u00e9", "\u044f", "\u0663", "\u3000", "\u2019", "\U0001f600"]
"""One of each kind beyond ASCII that classes tell apart. A set that names any is taken to hold all."""

_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z]*x")
"""Layout and comments in a regex: what is a character there and what is not would have to be told apart."""
_CODE_POINT: Final = re.compile(r"\\[xuUN0-7]")

Characters: TypeAlias = frozenset[str]
ALL: Final[Characters] = frozenset((*_ASCII, *_OTHERS))


@dataclass(frozen=True, slots=True)
class _Atom:
    """One character of a set."""

    characters: Characters


@dataclass(frozen=True, slots=True)
class _Group:
    """One of several sequences. `is_look`: they are looked at and not consumed."""

    options: tuple[_Sequence, ...]
    is_look: bool = False


@dataclass(frozen=True, slots=True)
class _Repeat:
    """A part, so many times. `is_final`: what it took it does not give back."""

    part: _Part
    least: int
    most: int
    is_final: bool


_Part: TypeAlias = "_Atom | _Group | _Repeat"
_Sequence: TypeAlias = "tuple[_Part, ...]"


def steps(regex: str, *, ends_anywhere: bool) -> int:
    """The most steps for a character of a text, `ENDLESS` at most and for what is not understood.

    All that is tried from one place counts for the characters up to the next place where it can be tried.
    The regex can be compiled, and every repeat in it has an upper bound.
    `ends_anywhere`: nothing that comes behind a match can undo it.
    """
    parts = sum(1 for token in TOKEN.finditer(regex) if token["open"] or token["repeat"])
    if parts > MOST_PARTS or _VERBOSE.search(regex):
        return ENDLESS
    whole = _parsed(TOKEN.finditer(regex))
    found = _steps((whole,) if ends_anywhere else (whole, _Atom(ALL)), ALL)
    return found if found == ENDLESS else found // _shift((whole,))


def _parsed(tokens: Iterator[re.Match[str]], opened: str = "") -> _Group:
    options: list[_Sequence] = []
    parts: list[_Part] = []
    for token in tokens:
        text = token[0]
        if token["close"]:
            break
        if text.startswith("(?P="):
            parts.append(_Atom(ALL))
            next(tokens)
        elif token["open"]:
            parts.append(_parsed(tokens, text))
        elif token["repeat"]:
            if parts:
                least, most = counts(token["repeat"])
                is_final = text.endswith("+") and len(text) > 1
                parts.append(_Repeat(parts.pop(), least, ENDLESS if most is None else most, is_final))
        elif text == "|":
            options.append(tuple(parts))
            parts = []
        elif not token["comment"]:
            parts += _atom(text)
    return _Group((*options, tuple(parts)), is_look=opened.endswith(("?=", "?!", "?<=", "?<!")))


@lru_cache(maxsize=1_024)
def _atom(text: str) -> tuple[_Part, ...]:
    """The characters a token may be; nothing for one of no width. A reference may be any."""
    if text in {"^", "$", r"\b", r"\B", r"\A", r"\Z"}:
        return ()
    try:
        matches = re.compile(text, re.IGNORECASE | re.DOTALL).fullmatch
    except re.error:
        return (_Atom(ALL),)
    found = frozenset(filter(matches, ALL))
    names_others = not text.isascii() or _CODE_POINT.search(text)
    return (_Atom(found.union(_OTHERS) if names_others else found),)


def _shift(parts: _Sequence) -> int:
    """How far apart two matches of what every match begins with are at least."""
    prefix, _ = _prefix(parts)
    for shift in range(1, len(prefix)):
        if all(one & other for one, other in zip(prefix[shift:], prefix, strict=False)):
            return shift
    return max(1, len(prefix))


def _prefix(parts: _Sequence) -> tuple[list[Characters], bool]:
    """The characters that every match begins with, and whether that is all of the sequence."""
    found: list[Characters] = []
    for part in parts:
        if isinstance(part, _Atom):
            found.append(part.characters)
        elif isinstance(part, _Group) and len(part.options) == 1 and not part.is_look:
            inner, is_all = _prefix(part.options[0])
            found += inner
            if not is_all:
                return found, False
        else:
            return found, False
    return found, True


@lru_cache(maxsize=4_096)
def _steps(parts: _Sequence, first: Characters) -> int:
    """Of a sequence, where the next character is one of `first`."""
    begin, may_be_empty = _beginning(parts)
    if may_be_empty or not begin & first:
        return 1  # it has matched, or fails at once
    part, rest = parts[0], parts[1:]
    if isinstance(part, _Atom):
        atoms = list(takewhile(lambda each: isinstance(each, _Atom), parts))
        return len(atoms) + _steps(parts[len(atoms) :], ALL)
    if isinstance(part, _Repeat):
        return _steps_of_repeat(part, rest, first)
    if part.is_look:
        return sum(_steps(option, ALL) for option in part.options) + _steps(rest, first)
    return _steps_of_options([(*option, *rest) for option in part.options], first)


def _steps_of_repeat(repeat: _Repeat, rest: _Sequence, first: Characters) -> int:
    if (repeat.least, repeat.most) == (0, 1) and not repeat.is_final:
        return _steps_of_options([(repeat.part, *rest), rest], first)
    begin, _ = _beginning((repeat.part,))
    ends = 0 if repeat.is_final else repeat.most - repeat.least
    if isinstance(repeat.part, _Atom) and _is_bordered(repeat.part.characters, rest):
        ends = min(ends, 1)
    least = 0 if begin & first or repeat.least else _steps(rest, first)
    through = repeat.most * _size(repeat.part) + _steps(rest, ALL) + ends * _steps(rest, begin)
    return min(least + _choices(repeat) * through, ENDLESS)


def _steps_of_options(sequences: Sequence[_Sequence], first: Characters) -> int:
    """Those that the same next character may begin are all tried."""
    found = [(_steps(sequence, first), *_beginning(sequence)) for sequence in sequences]
    nexts = frozenset[str]().union(*(begin for _, begin, _ in found)) or ALL
    return min(max(sum(n for n, begin, empty in found if empty or at in begin) for at in nexts), ENDLESS)


def _is_bordered(characters: Characters, rest: _Sequence) -> bool:
    """Whether there is one place at most where a run of the characters can be left for `rest`."""
    for part in rest:
        if not isinstance(part, _Atom):
            return False
        if not part.characters & characters:
            return True
    return False


def _choices(part: _Part) -> int:
    """In how many ways the same text can be a part that holds no repeat of varying length."""
    if isinstance(part, _Atom):
        return 1
    if isinstance(part, _Repeat):
        return min(int(_choices(part.part) ** min(part.most, 64)), ENDLESS)
    found = [prod(map(_choices, option)) for option in part.options]
    return max(found) if _are_told_apart(part.options) else min(sum(found), ENDLESS)


def _size(part: _Part) -> int:
    """The most characters of a part, and of all that is tried for it."""
    if isinstance(part, _Atom):
        return 1
    if isinstance(part, _Repeat):
        return part.most * _size(part.part)
    return sum(1 + sum(map(_size, option)) for option in part.options)


def _are_told_apart(sequences: Iterable[_Sequence]) -> bool:
    """Whether the next character tells which of them it is."""
    beginnings = [_beginning(sequence) for sequence in sequences]
    return not any(may_be_empty for _, may_be_empty in beginnings) and not any(
        one & other for (one, _), (other, _) in combinations(beginnings, 2)
    )


@lru_cache(maxsize=4_096)
def _beginning(parts: _Sequence) -> tuple[Characters, bool]:
    """The characters a sequence may begin with, and whether it may be empty."""
    begin: Characters = frozenset()
    for part in parts:
        here, may_be_empty = _beginning_of(part)
        begin |= here
        if not may_be_empty:
            return begin, False
    return begin, True


def _beginning_of(part: _Part) -> tuple[Characters, bool]:
    if isinstance(part, _Atom):
        return part.characters, False
    if isinstance(part, _Repeat):
        begin, may_be_empty = _beginning((part.part,))
        return begin, may_be_empty or part.least == 0
    if part.is_look:
        return frozenset(), True
    found = [_beginning(option) for option in part.options]
    return frozenset().union(*(begin for begin, _ in found)), any(is_empty for _, is_empty in found)
