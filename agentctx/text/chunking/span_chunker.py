"""Base class of our own chunkers: they find spans, from which both interfaces are derived."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import takewhile

from agentctx.errors import InvalidInput
from agentctx.text.chunking.base import Document, PositionAwareChunk, Span
from agentctx.text.chunking.boundaries import Boundaries, separator_levels
from agentctx.text.chunking.packing import Layout, PackLimits, pack
from agentctx.text.chunking.weights import CharacterMeasure, TextMeasure, Weight, WeightTable

DEFAULT_CHUNK_SIZE = 1000
DEFAULT_CHUNK_OVERLAP = 200
DEFAULT_SEPARATORS = ("\n\n", "\n", ". ", " ", "")
ID_HEX_DIGITS = 12


class SpanChunker(ABC):
    """Implements `Chunker` and `PositionAwareChunker` on top of `spans`.

    `chunk_size` and `chunk_overlap` are in characters, or in the units of `weight`. Raises `InvalidInput`
    unless `0 <= chunk_overlap < chunk_size`, and if `separators` is a single string.
    """

    kind: str

    def __init__(
        self,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        chunk_overlap: int = DEFAULT_CHUNK_OVERLAP,
        separators: Sequence[str] = DEFAULT_SEPARATORS,
        *,
        weight: Weight | None = None,
    ) -> None:
        if isinstance(separators, str):
            raise InvalidInput("`separators` must be a list of strings, not one string.")
        self.limits = PackLimits(chunk_size, chunk_overlap)
        self.separators = tuple(separators)
        self._weights = None if weight is None else WeightTable(weight)

    @property
    def name(self) -> str:
        return f"{self.kind}(size={self.limits.chunk_size}, overlap={self.limits.chunk_overlap})"

    @abstractmethod
    def spans(self, text: str) -> list[Span]:
        """Return the positions of the chunks, with the guarantees of `packing.pack`."""

    def chunk(self, text: str) -> list[str]:
        return [text[span.start : span.end] for span in self.spans(text)]

    def chunk_with_positions(self, document: Document) -> list[PositionAwareChunk]:
        return [chunk_at(document, span) for span in self.spans(document.content)]

    def _levels(self, text: str) -> list[Boundaries]:
        """Return the separators before "", which splits anywhere."""
        listed = takewhile(bool, self.separators)
        return separator_levels(text, [(separator,) for separator in listed])

    def _measure(self, text: str) -> TextMeasure:
        return CharacterMeasure(len(text)) if self._weights is None else self._weights.measure(text)


def chunk_at(document: Document, span: Span) -> PositionAwareChunk:
    """Return the chunk of `document` at `span`, with its metadata."""
    content = document.content[span.start : span.end]
    return PositionAwareChunk(
        id=chunk_id_at(document.id, span.start, content),
        content=content,
        doc_id=document.id,
        start=span.start,
        end=span.end,
        metadata=document.metadata,
    )


class RecursiveCharacterChunker(SpanChunker):
    r"""Splits after separators, preferring the first listed; a separator stays with the text before it.

    Defaults: 1000 characters, overlap 200, separators paragraph, line, sentence, word, anywhere:
    `("\n\n", "\n", ". ", " ", "")`. Text without a separator is cut between graphemes, even if "" is
    not listed. The chunks cover the text, including whitespace; see `packing.pack` for all guarantees.
    """

    kind = "RecursiveCharacter"

    def spans(self, text: str) -> list[Span]:
        return pack(text, self._measure(text), Layout(self._levels(text)), self.limits)


def generate_chunk_id(content: str) -> str:
    """Return `chunk_` and the first 12 hex digits of the SHA-256 of `content` in UTF-8."""
    return f"chunk_{_digest(content)}"


def generate_pa_chunk_id(content: str) -> str:
    """Return `pa_chunk_` and the first 12 hex digits of the SHA-256 of `content` in UTF-8."""
    return f"pa_chunk_{_digest(content)}"


def chunk_id_at(document_id: str, start: int, content: str) -> str:
    """Return `generate_pa_chunk_id(content)`, `_` and 12 hex digits of the position.

    Equal texts at two positions get two ids, so that neither replaces the other in a store. Splitting a
    document again gives the same ids.
    """
    return f"{generate_pa_chunk_id(content)}_{_digest(f'{start}:{document_id}')}"


def _digest(content: str) -> str:
    # A lone surrogate has no UTF-8; passing it through gives every str an id.
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:ID_HEX_DIGITS]
