"""Translates the globs of `.gitignore` into regular expressions that match in polynomial time. Pure.

A naive translation tries every way to divide a name among the stars, which takes exponential time for
`*a*a*a*b`. Here the text after a star matches at its first fit and never backtracks (an atomic group). No
match is lost: a later fit would only leave less of the name for the rest of the glob. The same holds for
whole segments between two `**`.

Globs and paths are bytes decoded as Latin-1, because `?` and classes match single bytes in git.
"""

from __future__ import annotations

import re
import string
from typing import Final

MAX_BYTES: Final = 4_096
"""The longest possible path; a glob that needs more bytes matches nothing."""
MAX_CHARS: Final = 4 * MAX_BYTES
"""Longest glob that is translated; a longer one, for example with huge classes, matches nothing."""
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
    """The glob is malformed, or requires more bytes than a path can have."""


def translate(glob: str) -> re.Pattern[str] | None:
    """Return a pattern to `fullmatch` relative paths with, or None if the glob matches no path."""
    try:
        segments = _segments(glob)
    except _MatchesNothing:
        return None
    return re.compile(_path(segments), re.DOTALL)


def _segments(glob: str) -> list[list[str]]:
    """Split the glob at slashes into segments, each a list of stars and single-byte expressions."""
    if len(glob) > MAX_CHARS:
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
        if needed > MAX_BYTES:
            raise _MatchesNothing
    if not all(segments):
        raise _MatchesNothing
    return segments


def _piece(glob: str, at: int) -> tuple[str, int]:
    """Return a slash, stars or the expression for one byte, and the index of the next piece."""
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
    """Return the byte at `at`, unescaped if a backslash precedes it, and the index after it."""
    at += glob.startswith("\\", at)
    if at >= len(glob):
        raise _MatchesNothing
    return glob[at], at + 1


def _class(glob: str, at: int) -> tuple[str, int]:
    """Parse a bracket expression; `at` is the index after the opening bracket."""
    is_negated = glob.startswith(("!", "^"), at)
    at += is_negated
    first, members, before = at, set[str](), ""
    while at == first or not glob.startswith("]", at):
        if end := _end_of_name(glob, at):
            name = glob[at + 2 : end - 2]
            if name not in _CLASSES:
                raise _MatchesNothing
            members.update(_CLASSES[name])
            before, at = "", end
        elif before and glob.startswith("-", at) and not glob.startswith("]", at + 1):
            last, at = _literal(glob, at + 1)
            members.update(map(chr, range(ord(before), ord(last) + 1)))
            before = ""
        else:
            before, at = _literal(glob, at)
            members.add(before)
    members = members | {"/"} if is_negated else members - {"/"}  # it never matches a slash
    if not members:
        raise _MatchesNothing
    return f"[{'^' * is_negated}{''.join(map(re.escape, sorted(members)))}]", at + 1


def _end_of_name(glob: str, at: int) -> int:
    """Return the index after the `[:name:]` that starts at `at`, or 0 if none does."""
    if not glob.startswith("[:", at):
        return 0
    end = glob.find("]", at + 2)
    return end + 1 if end > at + 2 and glob[end - 1] == ":" else 0


def _path(segments: list[list[str]]) -> str:
    """Join the segments into an expression in which each `**` segment matches zero or more folders."""
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
