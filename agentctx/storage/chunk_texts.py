"""The texts of a version's chunks: pieces of its content, and its cues. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

from agentctx.text.chunking.base import Span


class Piece(NamedTuple):
    """The position of a chunk's text: `[start, end)` of the content, or of the cue with the number `cue`."""

    cue: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ChunkTexts:
    """The searchable texts of a version. They are sliced here: slicing in SQL takes quadratic time."""

    content: str
    cues: tuple[str, ...]
    labels: str
    header: str
    scope: str = ""

    def pieces(self, spans: tuple[Span, ...]) -> list[Piece]:
        """Return the pieces of the content and of the cues; none without spans, as in quarantine."""
        if not spans:
            return []
        cues = [Piece(number, 0, len(cue)) for number, cue in enumerate(self.cues, 1)]
        return [*(Piece(0, span.start, span.end) for span in spans), *cues]

    def text(self, piece: Piece) -> str:
        """Return the text of a piece; empty for a cue that does not exist."""
        return self._whole(piece.cue)[piece.start : piece.end]

    def embedded(self, piece: Piece) -> str:
        """Return the text to embed. Cues get no header: day, agent, key and tags say nothing about them."""
        return embedding_text("" if piece.cue else self.header, self.text(piece))

    def labels_of(self, piece: Piece) -> str:
        """Return the words searched in addition to the text; none for cues, so as not to count them twice."""
        return "" if piece.cue else self.labels

    def words(self, chunk: int, piece: Piece, terms: str) -> tuple[int, str, str, str, str]:
        """Return the row of a chunk in the word index: id, text, labels, terms and scope."""
        return chunk, self.text(piece), self.labels_of(piece), terms, self.scope

    def is_sound(self, piece: Piece, digest: object) -> bool:
        """Return whether a chunk matches its hash."""
        header = "" if piece.cue else self.header
        return is_chunk(self._whole(piece.cue), piece.start, piece.end, header=header, digest=digest)

    def _whole(self, cue: int) -> str:
        if not cue:
            return self.content
        return self.cues[cue - 1] if 0 < cue <= len(self.cues) else ""


def is_chunk(content: object, start: int, end: int, *, header: str, digest: object) -> bool:
    """Return whether a chunk matches its hash and lies within the content."""
    if not isinstance(content, str) or not 0 <= start <= end <= len(content):
        return False
    return text_hash(embedding_text(header, content[start:end])) == digest


def is_covered(texts: ChunkTexts, pieces: Sequence[Piece]) -> bool:
    """Return whether the ascending pieces cover all but white space, with one piece for each cue."""
    end = 0
    for piece in pieces:
        if piece.cue:
            continue
        if not _is_blank(texts.content, end, piece.start):
            return False
        end = max(end, piece.end)
    cues = [Piece(number, 0, len(cue)) for number, cue in enumerate(texts.cues, 1)]
    return _is_blank(texts.content, end, len(texts.content)) and [p for p in pieces if p.cue] == cues


def _is_blank(content: str, start: int, end: int) -> bool:
    return start >= end or content[start:end].isspace()


def content_hash(content: str) -> bytes:
    """Return the hash that detects damaged content."""
    return sha256(content.encode("utf-8", "surrogatepass")).digest()


def stored_cues(attributes: str) -> tuple[str, ...]:
    """Parse the cues in stored attributes; none if damaged. Most rows have none and are not parsed."""
    if '"cues":' not in attributes:
        return ()
    try:
        values: Any = json.loads(attributes)
    except ValueError:
        return ()
    return cues_of(values) if isinstance(values, Mapping) else ()


MAX_CUES: Final = 8
"""Maximum number per entry. The table of chunks enforces the same limit."""
MAX_CUE_CHARS: Final = 200


def cues_of(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cues among the attributes of an entry; none if they are not a list of texts."""
    cues = attributes.get("cues")
    if not cues:
        return ()
    return tuple(cues) if isinstance(cues, list | tuple) and all(isinstance(cue, str) for cue in cues) else ()


TEMPLATE = "header-newline-chunk/1"


def embedding_text(header: str, chunk: str) -> str:
    """Prepend the header: without the agent's name in it, dense recall on conversations drops by a third."""
    return f"{header}\n{chunk}" if header else chunk


def text_hash(text: str) -> bytes:
    """Return the SHA-256 of the embedded text, the part of a job's fencing token that detects an edit."""
    return sha256(text.encode()).digest()
