"""The globs of `.gitignore` as regular expressions that match in polynomial time. Pure.

A plain translation tries every way to divide a name among the stars, which takes forever for `*a*a*a*b`. Here
what follows a star is matched where it first fits, and never moved again (an atomic group). That loses no
match: a later fit only leaves less of the name to the rest of the glob. Between two `**` the same is true of
whole segments.

Globs and paths are bytes, read as Latin-1: that is what `?` and classes count for git.
"""

from __future__ import annotations

import re
import string
from typing import Final

MOST_BYTES: Final = 4_096
"""No path is longer, so a glob that needs more bytes matches nothing."""
MOST_CHARS: Final = 4 * MOST_BYTES
"""Of a glob: what spells out longer classes is not read."""
_STAR, _STARS, _ANY = "*", "**", "[^/]"
_CLASSES: Final = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, (*range(0x20), 0x7F))),
    "digit": string.digits,
    "graph": string.ascii_letters + string.digits + string.punctuation,
    "lower": string.ascii_lowercase,
    "print": string.ascii_letters + string.digits + string.punctuation + " ",
    "punct": string.punctuation,
    "space": " \t\n\r",
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}


class _MatchesNothing(Exception):
    """The glob is malformed, or asks for more than a path has."""


def translate(glob: str) -> re.Pattern[str] | None:
    """The expression whose `fullmatch` says whether a path, relative, fits; None: no path does."""
    try:
        segments = _segments(glob)
    except _MatchesNothing:
        return None
    return re.compile(_path(segments), re.DOTALL)


def _segments(glob: str) -> list[list[str]]:
    """What is between the slashes: stars, and an expression for each byte."""
    if len(glob) > MOST_CHARS:
        raise _MatchesNothing
    segments: list[list[str]] = [[]]
    at = needed = 0
    while at < len(glob):
        piece, at = _piece(glob, at)
        if piece == "/":
            segments.append([])
        else:
            segments[-1].append(piece)
        needed += piece not in {_STAR, _STARS}
        if needed > MOST_BYTES:
            raise _MatchesNothing
    if not all(segments):
        raise _MatchesNothing
    return segments


def _piece(glob: str, at: int) -> tuple[str, int]:
    """A slash, stars, or the expression for one byte; and where the next piece begins."""
    if glob[at] == "*":
        end = next((i for i in range(at, len(glob)) if glob[i] != "*"), len(glob))
        return (_STAR if end == at + 1 else _STARS), end
    if glob[at] == "?":
        return _ANY, at + 1
    if glob[at] == "[":
        return _class(glob, at + 1)
    byte, at = _literal(glob, at)
    return ("/" if byte == "/" else re.escape(byte)), at


def _literal(glob: str, at: int) -> tuple[str, int]:
    """A byte, maybe behind a backslash."""
    at += glob.startswith("\\", at)
    if at >= len(glob):
        raise _MatchesNothing
    return glob[at], at + 1


def _class(glob: str, at: int) -> tuple[str, int]:
    """What is in brackets; `at` is behind the first one."""
    is_negated = glob.startswith(("!", "^"), at)
    at += is_negated
    first, members, before = at, set[str](), ""
    while at == first or not glob.startswith("]", at):
        if end := _end_of_name(glob, at):
            members.update(_named(glob[at + 2 : end - 2]))
            before, at = "", end
        elif before and glob.startswith("-", at) and not glob.startswith("]", at + 1):
            last, at = _literal(glob, at + 1)
            members.update(map(chr, range(ord(before), ord(last) + 1)))
            before = ""
        else:
            before, at = _literal(glob, at)
            members.add(before)
    return _any_of(members, is_negated=is_negated), at + 1


def _end_of_name(glob: str, at: int) -> int:
    """Where `[:name:]` ends if it begins here; else 0."""
    if not glob.startswith("[:", at):
        return 0
    end = glob.find("]", at + 2)
    return end + 1 if end > at + 2 and glob[end - 1] == ":" else 0


def _named(name: str) -> str:
    if name not in _CLASSES:
        raise _MatchesNothing
    return _CLASSES[name]


def _any_of(members: set[str], *, is_negated: bool) -> str:
    """No class has the slash."""
    members = members | {"/"} if is_negated else members - {"/"}
    if not members:
        raise _MatchesNothing
    return f"[{'^' * is_negated}{''.join(map(re.escape, sorted(members)))}]"


def _path(segments: list[list[str]]) -> str:
    """Runs of segments; between two of them are any folders or none."""
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == [_STARS]:
            runs.append([])
        else:
            runs[-1].append(_segment(segment))
    if len(runs) == 1:
        return "/".join(runs[0])
    first, *middle, last = runs
    begun = "".join(f"{segment}/" for segment in first)
    fixed = "".join(f"(?>(?:[^/]+/)*?{'/'.join(run)}/)" for run in middle if run)
    return begun + fixed + (f"(?:[^/]+/)*?{'/'.join(last)}" if last else ".+")


def _segment(pieces: list[str]) -> str:
    parts: list[str] = [""]
    for piece in pieces:
        if piece in {_STAR, _STARS}:
            parts.append("")
        else:
            parts[-1] += piece
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    fixed = "".join(f"(?>[^/]*?{part})" for part in middle)
    return rf"(?>{first}{fixed}[^/]*{last}(?=/|\Z))"
