"""Finds and decodes runs of Base64 and hexadecimal digits in a text."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from typing import Final, NamedTuple

_SNIFFED_CHARS: Final = 36
"""How many characters suffice to distinguish text from an image or a digest."""

_RUN: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}+(?:(?:%3[Dd]|=){0,2})")
_HEX: Final = re.compile(r"(?:0x)?((?:[0-9a-fA-F]{2})+)")
# In hexadecimal, ASCII letters and digits are 30 to 7a.
_PAIRS: Final = re.compile(r"[2-7][0-9a-fA-F](?:[ :,-][0-9a-fA-F]{2}){15,}(?![0-9a-fA-F])")
_LONG: Final = re.compile(r"\s\S{20,}+")
_PLAIN: Final = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}


class DecodedRun(NamedTuple):
    """The decoded text of `[start, end)`."""

    text: str
    start: int
    end: int


def decoded(text: str) -> Iterator[DecodedRun]:
    """Yield every run that decodes to readable text."""
    runs = (run for start, end in long_runs(text) for run in _RUN.finditer(text, start, end))
    for run in runs:
        if (plain := _base64(run[0])) or (plain := _hex(run[0])):
            yield DecodedRun(plain, *run.span())
    for pairs in _PAIRS.finditer(text):
        if plain := _readable(bytes.fromhex(re.sub(r"[^0-9a-fA-F]", "", pairs[0]))):
            yield DecodedRun(plain, *pairs.span())


def long_runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of at least 20 characters without white space."""
    # The prepended space lets the regex start with one, which is several times as fast.
    for run in _LONG.finditer(f" {text}"):
        yield run.start(), run.end() - 1


def has_long_run(text: str) -> bool:
    """Whether the text has 20 characters in a row without white space; shorter runs are ignored as Base64."""
    return _LONG.search(f" {text}") is not None


def has_hex_pairs(text: str) -> bool:
    """Whether the text has at least 16 pairs of hexadecimal digits in a row with something between them."""
    return _PAIRS.search(text) is not None


def _base64(run: str) -> str | None:
    digits = re.sub(r"=|%3[Dd]", "", run).replace("+", "-").replace("/", "_")
    if not _readable(_bytes(digits[:_SNIFFED_CHARS])):
        return None
    return _readable(_bytes(digits))


def _bytes(digits: str) -> bytes:
    whole = digits[: len(digits) - (len(digits) % 4 == 1)]
    return urlsafe_b64decode(whole + "=" * (-len(whole) % 4))


def _hex(run: str) -> str | None:
    match = _HEX.fullmatch(run)
    return _readable(bytes.fromhex(match[1])) if match else None


def _readable(data: bytes) -> str | None:
    """Return the text of the bytes, UTF-16 included; None if they are not text."""
    if data[1::2].count(0) > len(data) // 3:
        data = data[::2]
    return data.decode("ascii") if data and _PLAIN.issuperset(data) else None
