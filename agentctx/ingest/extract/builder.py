"""Assembles an extracted text piece by piece, records its places and enforces the limits."""

from __future__ import annotations

import io
import re

from agentctx.ingest.extract.base import ExtractedText, ExtractLimits, ExtractRefusal, NotIngestible
from agentctx.wire import PlaceUnit

_FREE_CHARACTERS = 1_000_000

_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
_BACKTICKS = re.compile("`{3,}")
_LINE_BREAK = re.compile("\r\n?|[\x0b\x0c]")


class Budget:
    """The remaining limits for one file of `size` bytes."""

    def __init__(self, limits: ExtractLimits, size: int) -> None:
        self._clock = limits.clock
        self._seconds = limits.seconds
        self._deadline = limits.clock() + limits.seconds
        self._characters = min(limits.characters, _FREE_CHARACTERS + limits.growth * size)
        self._left = self._characters

    def spend(self, characters: int) -> None:
        """Deduct the characters; raise `NotIngestible` (too large) if they exceed the limit."""
        self._left -= characters
        if self._left < 0:
            raise NotIngestible(
                ExtractRefusal.TOO_LARGE, f"too large: more than {self._characters:,} characters of text"
            )

    def check_time(self) -> None:
        """Raise `NotIngestible` (too slow) if the time is up."""
        if self._clock() > self._deadline:
            raise NotIngestible(
                ExtractRefusal.TOO_SLOW,
                f"too slow: not read within {self._seconds:g} s",
                hint="Split the file.",
            )


class TimedBytes(io.BytesIO):
    """An in-memory file that checks the time limit on each read; the libraries read it piece by piece."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        super().__init__(data)
        self._budget = budget

    def read(self, size: int | None = -1, /) -> bytes:
        self._budget.check_time()
        return super().read(size)


class TextBuilder:
    """Collects pieces of text, and records a place wherever the number does not follow by counting."""

    def __init__(self, unit: PlaceUnit, budget: Budget) -> None:
        self.budget = budget
        self._unit = unit
        self._pieces: list[str] = []
        self._length = 0
        self._number = 0
        self._places: list[tuple[int, int]] = []

    def write(self, text: str, number: int | None = None) -> None:
        """Clean and add `text`, which starts at `number`; None continues where the previous text ended.

        Raises `NotIngestible` when a limit is reached.
        """
        text = clean(text)
        if not text:
            return
        number = number or self._number or 1
        if number != self._number:
            self._places.append((self._length, number))
            self._number = number
        self._add(text)

    def append(self, text: str) -> None:
        """Add a separator or an ending, which has no place of its own; ignored before the first text."""
        if text and self._length:
            self._add(text)

    def finish(self, *, empty: str, notes: tuple[str, ...] = ()) -> ExtractedText:
        """Return the text with its places. Raises `NotIngestible` with message `empty` if it is blank."""
        text = "".join(self._pieces)
        if not text or text.isspace():
            raise NotIngestible(ExtractRefusal.EMPTY, empty)
        return ExtractedText(text, self._unit, tuple(self._places), notes)

    def _add(self, text: str) -> None:
        self.budget.check_time()
        self.budget.spend(len(text))
        self._pieces.append(text)
        self._length += len(text)
        if self._unit == "line":
            self._number += text.count("\n")


def clean(text: str) -> str:
    """Normalize line breaks to LF and remove other control characters.

    Surrogate pairs are joined; a lone surrogate becomes U+FFFD.
    """
    if _UNFIT.search(text) is None:
        return text
    text = _CONTROL.sub("", _LINE_BREAK.sub("\n", text))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def fence_around(code: str) -> str:
    """Return a Markdown fence for `code`: three backticks, or one more than its longest run of them."""
    return "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(code)), default=0))


def table_row(cells: list[str]) -> str:
    """Format a row as one line; collapse whitespace in cells and drop trailing empty cells."""
    words = [" ".join(cell.split()) for cell in cells]
    while words and not words[-1]:
        words.pop()
    return f"| {' | '.join(words)} |" if words else ""
