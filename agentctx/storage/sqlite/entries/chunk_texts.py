"""The texts that the chunks of a version are made of: pieces of its content, and its cues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from agentctx.chunking.base import Span
from agentctx.sqlite.driver import Connection
from agentctx.storage.cues import cues_of
from agentctx.storage.embedding_text import embedding_text
from agentctx.storage.sqlite import checksums
from agentctx.storage.sqlite.search.word_index import WordRow

CUE_BYTES: Final = """CASE WHEN instr(entries.attributes, '"cues":') AND json_valid(entries.attributes)
    THEN coalesce(octet_length(json_extract(entries.attributes, '$.cues')), 0) ELSE 0 END"""
"""The size of the cues in a row of `entries`, in SQL."""


class Piece(NamedTuple):
    """Where the text of a chunk is: `[start, end)` of the content, or of the cue with the number `cue`."""

    cue: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ChunkTexts:
    """What a version is searched by. Slicing happens here: in SQL it is quadratic in the length."""

    content: str
    cues: tuple[str, ...]
    labels: str
    header: str
    scope: str

    def pieces(self, spans: tuple[Span, ...]) -> list[Piece]:
        """The texts of the content, cut into `spans`, and of the cues."""
        cues = [Piece(number, 0, len(cue)) for number, cue in enumerate(self.cues, 1)]
        return [*(Piece(0, span.start, span.end) for span in spans), *cues]

    def text(self, piece: Piece) -> str:
        """Empty for a cue that there is not."""
        return self._whole(piece.cue)[piece.start : piece.end]

    def embedded(self, piece: Piece) -> str:
        """What is embedded. A cue is embedded alone: day, speaker, key and tags say nothing about it."""
        return embedding_text("" if piece.cue else self.header, self.text(piece))

    def words(self, chunk: int, piece: Piece, terms: str) -> WordRow:
        """What the index of words has, as the view `chunk_text` shows it to FTS5."""
        return chunk, self.text(piece), "" if piece.cue else self.labels, terms, self.scope

    def is_sound(self, piece: Piece, digest: object) -> bool:
        """Whether a chunk is as it was written."""
        header = "" if piece.cue else self.header
        return checksums.is_chunk(
            self._whole(piece.cue), piece.start, piece.end, header=header, digest=digest
        )

    def _whole(self, cue: int) -> str:
        if not cue:
            return self.content
        return self.cues[cue - 1] if 0 < cue <= len(self.cues) else ""


def of_version(conn: Connection, seq: int) -> ChunkTexts:
    """The texts of a stored version, damaged or not."""
    content, attributes, labels, header, scope = conn.execute(
        "SELECT content, attributes, labels, header, scope FROM entries WHERE seq = ?", (seq,)
    ).fetchone()
    return ChunkTexts(str(content), stored_cues(attributes), labels, header, scope)


def stored_cues(attributes: str) -> tuple[str, ...]:
    """The cues in a column of attributes; none in a damaged one. Most have none, and are not parsed."""
    if '"cues":' not in attributes:
        return ()
    try:
        values: Any = json.loads(attributes)
    except ValueError:
        return ()
    return cues_of(values) if isinstance(values, Mapping) else ()
