"""Compares what an LLM reads in a text with what a person sees. Pure."""

from __future__ import annotations

import re
import unicodedata
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from typing import Final

MAX_DECODED: Final = 4
"""How many encoded parts of one text are decoded."""
_TOLERATED: Final = 3
"""Fewer invisible characters than this are common in text from editors and web pages."""

_MIN_ENCODED_CHARS: Final = 24

_TAGS: Final = re.compile("[\U000e0020-\U000e007e]+")
# Flags of regions are the only legitimate use of tag characters.
_REGION_FLAG: Final = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f")
_REORDERING: Final = re.compile("[\u202d\u202e]")
_INVISIBLE: Final = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)
_ZERO_WIDTH: Final = re.compile("(?<=[A-Za-z])[\u200b\u200c\u2060-\u2064\ufeff]+(?=[A-Za-z])")
_SPELLED_OUT: Final = re.compile(r"(?<![a-z0-9])[a-z]([-._* ])[a-z](?:\1[a-z]){1,40}(?![a-z0-9])")
_SINGLE_LETTERS: Final = re.compile(r"[-._* ][a-z][-._* ][a-z][-._* ]")
"""Found in a fifth of the time."""
_ENCODED: Final = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{24,4096}={0,2}(?![A-Za-z0-9+/=])")
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    # Joiners and selectors belong to scripts and emoji, but not after Latin letters or one another.
    "|(?<=[\x20-\x7e\ufe00-\ufe0f])[\u200c\u200d\ufe00-\ufe0f]"
)
_BREAKS: Final = str.maketrans("\n\r\t", "   ")
LOOKALIKES: Final = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455"
    "\u04bb\u0501\u0261\u0131\u03bf\u03b1\u2019\u2018",
    "aeopcyxijshdgioa''",
)
"""Characters that pass for Latin letters. Rules in their own script are written with the Latin ones, too."""


def visible_text(text: str) -> str:
    """Return the text in lower case, without invisible characters and look-alikes of Latin letters."""
    if text.isascii():
        return text.lower()
    seen = _INVISIBLE.sub("", text)
    return unicodedata.normalize("NFKC", seen).lower().translate(LOOKALIKES)


def marked(text: str) -> str:
    """Return the text for somebody who has to judge it: what they could not see is written as `<U+200B>`."""
    return _UNSEEN.sub(lambda match: f"<U+{ord(match[0]):04X}>", text.replace("\r\n", "\n"))


def text_variants(text: str) -> Iterator[str]:
    """Yield the `visible_text`, then the other ways to read it: with zero-width spaces as spaces, and with
    spelled-out words (i-g-n-o-r-e) joined.
    """
    visible = visible_text(text)
    yield visible
    if "\u200b" in text:
        yield visible_text(text.replace("\u200b", " "))
    if _SINGLE_LETTERS.search(visible):
        joined = _SPELLED_OUT.sub(lambda match: match[0].replace(match[1], ""), visible)
        yield " ".join(joined.split())


def has_hidden_text(text: str) -> bool:
    """Return whether the text contains what a person cannot see: tag characters, letters reordered by control
    characters, or words split by zero-width characters.
    """
    if text.isascii():
        return False
    if _REORDERING.search(text) or len(_ZERO_WIDTH.findall(text)) >= _TOLERATED:
        return True
    return _TAGS.search(text) is not None and _TAGS.search(_REGION_FLAG.sub("", text)) is not None


def hidden_parts(text: str) -> Iterator[str]:
    """Yield the text in tag characters, and the first encoded parts that decode to text."""
    if not text.isascii() and (tags := "".join(_TAGS.findall(text))):
        yield "".join(chr(ord(tag) - 0xE0000) for tag in tags)
    if max(map(len, text.split()), default=0) < _MIN_ENCODED_CHARS:
        return
    for number, match in enumerate(_ENCODED.finditer(text)):
        if number == MAX_DECODED:
            return
        if (decoded := _decoded(match[0])) is not None:
            yield decoded


def _decoded(encoded: str) -> str | None:
    body = encoded.rstrip("=")
    try:
        decoded = b64decode(body + "=" * (-len(body) % 4), validate=True).decode("ascii")
    except (Error, UnicodeDecodeError):
        return None
    is_text = " " in decoded and decoded.translate(_BREAKS).isprintable()
    return decoded if is_text else None
