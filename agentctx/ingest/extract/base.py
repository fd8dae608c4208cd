"""What every extractor takes, gives and refuses."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from agentctx.errors import InvalidInput
from agentctx.wire import PlaceUnit


@dataclass(frozen=True, slots=True)
class Extracted:
    """The readable text of a file, fit to be stored: without NUL and lone surrogates, never blank.

    `places` are pairs (offset in `text`, number), strictly ascending by offset, the first at offset 0:
    from that code point on the text is on line (page, slide, sheet, cell) `number` of the file, counted
    from 1. With unit `line`, line breaks (LF) after a place count up, so a plain file has ((0, 1),).
    """

    text: str
    unit: PlaceUnit
    places: tuple[tuple[int, int], ...]
    notes: tuple[str, ...] = ()
    """What was left out because of a limit, a phrase each, for the report."""


class ExtractRefusal(StrEnum):
    """Why a file gives no text."""

    BINARY = "binary"
    EMPTY = "empty"
    """No text in it; a scanned PDF, for example."""
    UNDECODABLE = "undecodable"
    """Text in an encoding that is not recognised."""
    DAMAGED = "damaged"
    ENCRYPTED = "encrypted"
    TOO_LARGE = "too_large"
    """Over one of the `ExtractLimits`, or made to be."""
    TOO_SLOW = "too_slow"
    NEEDS_EXTRA = "needs_extra"
    """A library is not installed; the hint says how to get it."""
    UNSUPPORTED = "unsupported"


class NotIngestible(InvalidInput):
    """The file gives no text. `message` is a phrase that continues "PATH: ", such as "encrypted"."""

    def __init__(self, refusal: ExtractRefusal, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class ExtractLimits:
    """What reading one file may cost, also if the file was made to cost as much as possible."""

    characters: int = 50_000_000
    """Of extracted text."""
    growth: int = 100
    """Characters of extracted text for each byte of the file, beyond a first million."""
    seconds: float = 300.0
    """Looked at between pages, rows, tags and reads, so one of them can overrun it."""
    cells: int = 1_000_000
    """Of a workbook, empty ones between others included; what is beyond is left out and noted."""
    clock: Callable[[], float] = time.monotonic


DEFAULT_LIMITS = ExtractLimits()

Extractor = Callable[[bytes, ExtractLimits], Extracted]
"""Turns the bytes of a file into text. Raises `NotIngestible`, and nothing else whatever the bytes are."""
