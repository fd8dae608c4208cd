"""Derives the source and the entry keys of a file from its path. Pure.

To the system, a path is bytes and may contain anything but NUL; sources and keys are printable text of
bounded length. Each path has exactly one escaped form, so the entries alone suffice to find a file again.
"""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256

MAX_SOURCE_CHARS = 2_048
"""Longest source the daemon accepts. A file whose escaped path is longer is left out."""

MAX_PLAIN_CHARS = 240
"""Longest source used as a key unchanged. The daemon accepts 256 characters; the part number needs some."""
HEAD_CHARS = 150
_TAIL_CHARS = 63
_ELLIPSIS = "…"

_PART_NUMBER_AT_END = re.compile(r"#(?=[0-9]+\Z)")
_ESCAPED = re.compile(r"\\(?:(\\)|x([0-9a-f]{2})|u([0-9a-f]{4}))")
_UNPRINTABLE = frozenset({"Cc", "Zl", "Zp", "Cs"})
_UNDECODABLE = range(0xDC80, 0xDD00)
"""Surrogates with which Python represents the non-UTF-8 bytes of a path."""


def escape_path(path: str) -> str:
    r"""Return the path as printable text, the source of the file's entries.

    Backslashes are doubled; control characters, line separators and non-UTF-8 bytes become `\xNN` or
    `\uNNNN`.
    """
    if path.isprintable() and "\\" not in path:
        return path
    return "".join(map(_escaped, path))


def unescape_path(source: str) -> str:
    """Return the path of a source."""
    return source if "\\" not in source else _ESCAPED.sub(_unescaped, source)


def _unescaped(match: re.Match[str]) -> str:
    backslash, byte, code = match.groups()
    return backslash or chr(0xDC00 + int(byte, 16) if byte else int(code, 16))


def _escaped(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if unicodedata.category(character) not in _UNPRINTABLE:
        return character
    code = ord(character)
    if code in _UNDECODABLE:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}"


def key_of(source: str, part: int = 1) -> str:
    """Return the key of a file's entry: the source, with `#2`, `#3` … appended for further parts.

    A source too long for a key is shortened to its beginning, a digest and its end. Shortened keys are
    longer than unshortened ones, so no two files share a key.
    """
    # A file name that ends in, say, `#2` must not be mistaken for a part number.
    key = _PART_NUMBER_AT_END.sub(r"\\u0023", source)
    if len(key) > MAX_PLAIN_CHARS:
        digest = sha256(source.encode()).hexdigest()[:32]
        key = f"{key[:HEAD_CHARS]}{_ELLIPSIS}{digest}{_ELLIPSIS}{key[-_TAIL_CHARS:]}"
    return key if part == 1 else f"{key}#{part}"


def is_within(source: str, folder: str) -> bool:
    """Whether `source` is `folder` itself or lies below it; both are escaped paths."""
    return source == folder or source.startswith(folder.rstrip("/") + "/")
