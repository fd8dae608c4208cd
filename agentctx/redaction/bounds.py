"""Whether the repeats of a regex have an end: none without an upper bound, none inside another."""

from __future__ import annotations

import re
from typing import Final

MOST_REPEATS: Final = 65_536

TOKEN: Final = re.compile(
    r"""
      \\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|[0-7]{2,3}|.)  # an escaped character
    | (?P<comment>\(\?\#[^)]*\))
    | \[\^?\]?(?:\\.|[^\]\\])*\]                   # a set of characters
    | (?P<open>\((?:\?(?:P<\w+>|P=\w+|[a-zA-Z]*(?:-[a-zA-Z]+)?:|[=!>]|<[=!]))?)
    | (?P<close>\))
    | (?P<repeat>[*+?]|\{(?:\d*,\d*|\d+)\})[?+]?
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def unbounded(regex: str) -> str | None:
    """The repeat in the regex that has no end; None when all have. `steps` says how long they take together.

    It is strict: a repeat needs an upper bound of at most `MOST_REPEATS`, and a group that is repeated more
    than once holds no repeat of varying length.
    """
    varies = [False]
    closed_varies = False
    for token in TOKEN.finditer(regex):
        repeat = token["repeat"]
        if token["open"]:
            varies.append(False)
        elif token["close"] and len(varies) > 1:
            closed_varies = varies.pop()
            varies[-1] |= closed_varies
            continue
        elif repeat:
            least, most = counts(repeat)
            if most is None or most > MOST_REPEATS:
                return f"{token[0]!r} repeats without an upper bound, or more than {MOST_REPEATS:,} times"
            if closed_varies and most > 1:
                return f"{token[0]!r} repeats a group that holds a repeat"
            varies[-1] |= least != most
        closed_varies = False
    return None


def counts(repeat: str) -> tuple[int, int | None]:
    if repeat == "?":
        return 0, 1
    if repeat in "*+":
        return 0, None
    least, comma, most = repeat.strip("{}").partition(",")
    if not comma:
        return int(least), int(least)
    return int(least or 0), int(most) if most else None
