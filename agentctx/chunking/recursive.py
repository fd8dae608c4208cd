"""Cuts at the best separator there is: paragraphs before lines, sentences before words."""

from __future__ import annotations

from agentctx.chunking.base import Span
from agentctx.chunking.packing import Layout, pack
from agentctx.chunking.span_chunker import SpanChunker


class RecursiveCharacterChunker(SpanChunker):
    r"""Cuts after the separators, the first of them preferred; separators stay with the text before.

    Defaults: 1000 characters, overlap 200, separators paragraph, line, sentence, word, anywhere:
    `("\n\n", "\n", ". ", " ", "")`. What no separator divides is cut between graphemes, also when
    "" is not listed. The chunks cover the text, whitespace included; `packing.pack` has all promises.
    """

    kind = "RecursiveCharacter"

    def spans(self, text: str) -> list[Span]:
        return pack(text, self._ruler(text), Layout(self._levels(text)), self.limits)
