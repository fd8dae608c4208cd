"""Interfaces of chunkers. Positions are code points of the document's content, end exclusive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeGuard, runtime_checkable

NO_METADATA: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Document:
    """A text to be split into chunks."""

    id: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=lambda: NO_METADATA)


@dataclass(frozen=True, slots=True)
class Span:
    """`content[start:end]` of some text; `0 <= start < end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PositionAwareChunk:
    """A piece of a document with its position: `document.content[start:end] == content`."""

    id: str
    content: str
    doc_id: str
    start: int
    end: int
    metadata: Mapping[str, Any] = field(default_factory=lambda: NO_METADATA)


class Chunker(Protocol):
    """Splits a text into non-empty pieces that together cover it."""

    @property
    def name(self) -> str: ...

    def chunk(self, text: str) -> list[str]: ...


@runtime_checkable
class PositionAwareChunker(Protocol):
    """Splits a document into chunks with positions, in order of their start."""

    @property
    def name(self) -> str: ...

    def chunk_with_positions(self, document: Document) -> list[PositionAwareChunk]: ...


def is_position_aware_chunker(chunker: object) -> TypeGuard[PositionAwareChunker]:
    """Return whether `chunker` has a `chunk_with_positions` method."""
    return callable(getattr(chunker, "chunk_with_positions", None))


def spans_of(chunks: Sequence[PositionAwareChunk]) -> list[Span]:
    """Return only the positions, as storage keeps them."""
    return [Span(chunk.start, chunk.end) for chunk in chunks]
