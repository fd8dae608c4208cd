"""What all extractors share: the input, the result, the refusals, and how they call libraries."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from agentctx.config.extras import install_hint
from agentctx.errors import InvalidInput
from agentctx.wire import PlaceUnit


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """The readable text of a file, ready to store: no NUL, no lone surrogates, never blank.

    `places` are pairs (offset in `text`, number), strictly ascending by offset, the first at offset 0.
    From that code point on, the text is on line (page, slide, sheet, cell) `number` of the file, counted
    from 1. With unit `line`, each line break (LF) adds 1 to the number, so a plain file has ((0, 1),).
    """

    text: str
    unit: PlaceUnit
    places: tuple[tuple[int, int], ...]
    notes: tuple[str, ...] = ()
    """One phrase, for the report, about each thing left out because of a limit."""


class ExtractRefusal(StrEnum):
    """Why no text can be extracted from a file."""

    BINARY = "binary"
    EMPTY = "empty"
    """It contains no text; a scanned PDF, for example."""
    UNDECODABLE = "undecodable"
    """It is text in an unrecognised encoding."""
    DAMAGED = "damaged"
    ENCRYPTED = "encrypted"
    TOO_LARGE = "too_large"
    """It exceeds one of the `ExtractLimits`, perhaps on purpose."""
    TOO_SLOW = "too_slow"
    NEEDS_EXTRA = "needs_extra"
    """A library is not installed; the hint says how to install it."""
    UNSUPPORTED = "unsupported"


class NotIngestible(InvalidInput):
    """No text can be extracted. `message` is a phrase to follow "PATH: ", such as "encrypted"."""

    def __init__(self, refusal: ExtractRefusal, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class ExtractLimits:
    """Limits on the cost of reading one file. They hold even for a file crafted to exhaust resources."""

    characters: int = 50_000_000
    """Characters of extracted text."""
    growth: int = 100
    """Characters of extracted text per byte of the file, in addition to a first million."""
    seconds: float = 300.0
    """Checked between pages, rows, tags and reads, so a single one of them can overrun it."""
    cells: int = 1_000_000
    """Cells of a workbook, including empty ones between others. The report notes if further cells are cut."""
    clock: Callable[[], float] = time.monotonic


DEFAULT_LIMITS = ExtractLimits()

Extractor = Callable[[bytes, ExtractLimits], ExtractedText]
"""Turns the bytes of a file into text. Raises only `NotIngestible`, whatever the bytes are."""

# Warning filters are global to the process; two threads must not restore each other's.
_WARNINGS = threading.Lock()


@contextmanager
def documents_library(kind: str) -> Iterator[None]:
    """Convert every exception of a library inside to `NotIngestible`, and suppress its warnings.

    The libraries guarantee nothing for damaged files: besides their own errors they raise KeyError,
    AttributeError, RecursionError, zlib.error and more. `kind` names the format, such as "PDF".
    """
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except NotIngestible:
            raise
        except ImportError as error:
            raise NotIngestible(
                ExtractRefusal.NEEDS_EXTRA,
                f"{kind} files need the documents extra",
                hint=install_hint("documents"),
            ) from error
        except MemoryError as error:
            raise NotIngestible(ExtractRefusal.TOO_LARGE, "too large for the available memory") from error
        except Exception as error:
            raise NotIngestible(
                ExtractRefusal.DAMAGED, f"damaged, or not in {kind} format ({type(error).__name__})"
            ) from error
