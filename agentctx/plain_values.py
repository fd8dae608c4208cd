"""Decides which values an error may quote: a secret pasted into the wrong field must not reach a log."""

from __future__ import annotations

import re
from typing import Final

NOT_SHOWN: Final = "(not shown)"
"""Replaces a value that could be a secret in an error."""

_QUOTED: Final = re.compile(
    r"""(?<![\w\\])(?:'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)"|`(?P<name>[^`]*)`)(?!\w)""",
    re.DOTALL,
)
_ENTRY_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_IN_GROUPS: Final = re.compile(
    r"(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})|(?<![\w-])[a-z]{4}(?:-[a-z]{4}){3}(?![\w-])"
    r"|(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])"
)
"""A UUID, a password for one application, or a social security number."""
_PLAIN: Final = re.compile(r"[\w .,:/\[\]()<>…*-]{0,200}")
_WORD: Final = re.compile(r"[^\W_]+")
_MOST_MIXED: Final = 9
"""Characters in words that mix letters and digits; tokens and generated passwords have more."""
_MOST_LETTERS: Final = 24
_MOST_DIGITS: Final = 14
"""Digits of a time such as 20261124101500; card numbers have more."""
_MOST_PHRASE: Final = 4
"""Words separated by spaces; a passphrase has more."""


def is_plain(value: str) -> bool:
    """Return whether an error may quote a value: words, short numbers, paths, ids; nothing like a secret."""
    if _ENTRY_ID.fullmatch(value):
        return True
    words = _WORD.findall(value)
    mixed = sum(len(word) for word in words if not word.isalpha() and not word.isdigit())
    return (
        _PLAIN.fullmatch(value) is not None
        and not _IN_GROUPS.search(value)
        and mixed <= _MOST_MIXED
        and max(map(len, words), default=0) <= _MOST_LETTERS
        and max(map(len, filter(str.isdigit, words)), default=0) <= _MOST_DIGITS
        and len(value.split()) <= _MOST_PHRASE
    )


def shown(value: str) -> str:
    """Return the value if it is plain, else `NOT_SHOWN`."""
    return value if is_plain(value) else NOT_SHOWN


def without_values(message: str) -> str:
    """Replace the quoted values of a message that could be secrets."""
    return _QUOTED.sub(_if_plain, message)


def _if_plain(match: re.Match[str]) -> str:
    return match[0] if is_plain(match[match.lastgroup or 0]) else NOT_SHOWN
