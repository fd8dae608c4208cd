"""Puts an extracted text together, piece by piece, with places and within the limits."""

from __future__ import annotations

import io
import re

from agentctx.ingest.extract.base import Extracted, ExtractLimits, ExtractRefusal, NotIngestible
from agentctx.wire import PlaceUnit

_FREE_CHARACTERS = 1_000_000

_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
_BACKTICKS = re.compile("`{3,}")
_LINE_BREAK = re.compile("\r\n?|[\x0b\x0c]")


class Budget:
    """What is left of the limits for one file of `size` bytes."""

    def __init__(self, limits: ExtractLimits, size: int) -> None:
        self._clock = limits.clock
        self._seconds = limits.seconds
        self._deadline = limits.clock() + limits.seconds
        self._characters = min(limits.characters, _FREE_CHARACTERS + limits.growth * size)
        self._left = self._characters

    def spend(self, characters: int) -> None:
        """Raises `NotIngestible` (too large) when that is more text than the file may give."""
        self._left -= characters
        if self._left < 0:
            raise NotIngestible(
                ExtractRefusal.TOO_LARGE, f"too large: more than {self._characters:,} characters of text"
            )

    def check_time(self) -> None:
        """Raises `NotIngestible` (too slow) when the time is up."""
        if self._clock() > self._deadline:
            raise NotIngestible(
                ExtractRefusal.TOO_SLOW,
                f"too slow: not read within {self._seconds:g} s",
                hint="Split the file.",
            )


class TimedBytes(io.BytesIO):
    """A file in memory. Reading it, as the libraries do piece by piece, looks at the clock."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        super().__init__(data)
        self._budget = budget

    def read(self, size: int | None = -1, /) -> bytes:
        self._budget.check_time()
        return super().read(size)


class TextBuilder:
    """Collects pieces and notes a place wherever counting on would give another number."""

    def __init__(self, unit: PlaceUnit, budget: Budget) -> None:
        self.budget = budget
        self._unit = unit
        self._pieces: list[str] = []
        self._length = 0
        self._number = 0
        self._places: list[tuple[int, int]] = []

    @property
    def is_empty(self) -> bool:
        return self._length == 0

    def write(self, text: str, number: int | None = None) -> None:
        """Adds `text`, cleaned, which begins at `number`; None continues where the previous text ends.

        Raises `NotIngestible` at a limit.
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
        """Adds a separator or an ending, which is at no place of its own; nothing at the beginning."""
        if text and self._length:
            self._add(text)

    def finish(self, *, empty: str, notes: tuple[str, ...] = ()) -> Extracted:
        """The text. Raises `NotIngestible` with the message `empty` if it is blank."""
        text = "".join(self._pieces)
        if not text or text.isspace():
            raise NotIngestible(ExtractRefusal.EMPTY, empty)
        return Extracted(text, self._unit, tuple(self._places), notes)

    def _add(self, text: str) -> None:
        self.budget.check_time()
        self.budget.spend(len(text))
        self._pieces.append(text)
        self._length += len(text)
        if self._unit == "line":
            self._number += text.count("\n")


def clean(text: str) -> str:
    """Without what cannot be stored or read: line breaks become LF, other control characters vanish.

    Surrogate pairs are joined; half a pair becomes U+FFFD.
    """
    if _UNFIT.search(text) is None:
        return text
    text = _CONTROL.sub("", _LINE_BREAK.sub("\n", text))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def fence_around(code: str) -> str:
    """The Markdown fence for `code`: three backticks, or more than it has in a row."""
    return "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(code)), default=0))


def table_row(cells: list[str]) -> str:
    """One line for a row; whitespace in the cells is collapsed, empty cells at the end are left out."""
    words = [" ".join(cell.split()) for cell in cells]
    while words and not words[-1]:
        words.pop()
    return f"| {' | '.join(words)} |" if words else ""
