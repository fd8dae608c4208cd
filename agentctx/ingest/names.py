"""How a file is named in the memory: the source and the keys of its entries. Pure.

A path is bytes to the system and may hold anything but NUL; sources and keys are printable text of bounded
length. The spelling of a path is one to one, so that a file is found again by its entries alone.
"""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256

MAX_SOURCE_CHARS = 2_048
"""Longest source the daemon takes. A file whose path is spelled longer is left out."""

MAX_PLAIN_CHARS = 240
"""Longest source that is its own key. The daemon takes 256 characters, the number of a part needs some."""
HEAD_CHARS = 150
_TAIL_CHARS = 63
_ELLIPSIS = "…"

_PART_NUMBER_AT_END = re.compile(r"#(?=[0-9]+\Z)")
_UNPRINTABLE = frozenset({"Cc", "Zl", "Zp", "Cs"})
_UNDECODABLE = range(0xDC80, 0xDD00)
"""What Python makes of bytes that are not UTF-8 in a path."""


def spell(path: str) -> str:
    r"""The path as the source of its entries.

    A backslash is doubled; control characters, line separators and bytes that are not UTF-8 become `\xNN`
    or `\uNNNN`.
    """
    if path.isprintable() and "\\" not in path:
        return path
    return "".join(map(_spelled, path))


def _spelled(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if unicodedata.category(character) not in _UNPRINTABLE:
        return character
    code = ord(character)
    if code in _UNDECODABLE:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}"


def key_of(source: str, part: int = 1) -> str:
    """The key of a file's entry: the source, then `#2`, `#3` … for its further parts.

    A longer source keeps its beginning and its end around a digest. All shortened keys are longer than the
    plain ones, so no file has the key of another.
    """
    # A name that ends like the number of a part must not be taken for one.
    key = _PART_NUMBER_AT_END.sub(r"\\u0023", source)
    if len(key) > MAX_PLAIN_CHARS:
        digest = sha256(source.encode()).hexdigest()[:32]
        key = f"{key[:HEAD_CHARS]}{_ELLIPSIS}{digest}{_ELLIPSIS}{key[-_TAIL_CHARS:]}"
    return key if part == 1 else f"{key}#{part}"


def is_within(source: str, folder: str) -> bool:
    """Whether a spelled path is the other one or lies below it."""
    return source == folder or source.startswith(folder.rstrip("/") + "/")
