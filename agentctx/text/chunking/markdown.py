"""Split Markdown by its structure: sections, blocks, list items and table rows, then sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentctx.text.chunking.base import Span
from agentctx.text.chunking.boundaries import Boundaries, PositionBoundaries
from agentctx.text.chunking.packing import Layout, pack
from agentctx.text.chunking.span_chunker import SpanChunker
from agentctx.text.chunking.weights import TextMeasure

HEADING_DEPTHS = 6

# A section justifies a smaller chunk: half a section joined to its neighbour answers for neither.
_HEADING_SHARE = 4

_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}+(?!.*`)|~{3,})")
_HEADING = re.compile(r" {0,3}(?P<mark>#{1,6})(?:[ \t]|\r?$)")
_UNDERLINE = re.compile(r" {0,3}(?P<mark>=+|-{2,})[ \t]*\r?$")
_ITEM_OR_ROW = re.compile(r"[ \t]*(?:[-*+][ \t]|\d{1,9}[.)][ \t]|\|)")
_INDENTED = re.compile(r"[ \t]{2}")
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(?=[^\n:#]+:)(?:.*\n)*?(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)")


class MarkdownChunker(SpanChunker):
    """Splits Markdown like a `RecursiveCharacterChunker` that knows the structure.

    Preferred boundaries are headings, higher levels first, then blocks (paragraphs, fenced code, tables,
    lists), then list items and table rows, then `separators`. A heading stays with the text after it, and a
    chunk that begins with a heading repeats nothing of the section before. Fenced code and front matter stay
    whole if they fit a chunk; otherwise they are cut at the separators. Sections are joined up to the chunk
    size. The guarantees of `packing.pack` hold.
    """

    kind = "Markdown"

    def spans(self, text: str) -> list[Span]:
        measure = self._measure(text)
        layout = markdown_layout(text, measure, self.limits.chunk_size, self._levels(text))
        return pack(text, measure, layout, self.limits)


@dataclass(frozen=True, slots=True)
class Outline:
    """The structure of a Markdown text, as positions in ascending order."""

    headings: list[list[int]] = field(default_factory=lambda: [[] for _ in range(HEADING_DEPTHS)])
    """Starts of headings, by depth."""
    blocks: list[int] = field(default_factory=list)
    """Starts of text after a blank line, of fenced code and of front matter."""
    parts: list[int] = field(default_factory=list)
    """Starts of list items, of further paragraphs in them, and of table rows."""
    unbreakable: list[Span] = field(default_factory=list)
    """Fenced code, front matter, and headings up to the first character of their text."""


def markdown_layout(text: str, measure: TextMeasure, chunk_size: int, inner: Sequence[Boundaries]) -> Layout:
    """Return the structure of `text` for the packer; `inner` are the levels inside a block."""
    outline = outline_of(text)
    sections = [PositionBoundaries(positions, _HEADING_SHARE) for positions in outline.headings if positions]
    levels = [*sections, PositionBoundaries(outline.blocks), PositionBoundaries(outline.parts), *inner]
    starts = frozenset(position for positions in outline.headings for position in positions)
    return Layout(levels, _fitting(outline.unbreakable, measure, chunk_size), starts)


def outline_of(text: str) -> Outline:
    """Read the structure line by line. An unclosed element, such as fenced code, extends to the end."""
    reader = _Reader()
    position = 0
    front_matter = _FRONT_MATTER.match(text)
    if front_matter:
        position = front_matter.end()
        reader.outline.unbreakable.append(Span(0, position))
    for line in text[position:].split("\n"):
        reader.read(position, line)
        position += len(line) + 1
    reader.finish(len(text))
    return reader.outline


def _fitting(unbreakable: Sequence[Span], measure: TextMeasure, chunk_size: int) -> list[Span]:
    """Keep the spans that fit a chunk; overlapping ones are joined or, if too large, the later is kept."""
    kept: list[Span] = []
    for span in unbreakable:
        if measure.between(span.start, span.end) > chunk_size:
            continue
        if kept and kept[-1].end > span.start:
            joined = Span(kept.pop().start, span.end)
            fits = measure.between(joined.start, joined.end) <= chunk_size
            kept.append(joined if fits else span)
        else:
            kept.append(span)
    return kept


@dataclass(slots=True)
class _Reader:
    outline: Outline = field(default_factory=Outline)
    fence: str = ""
    """The mark that opened the current fenced code."""
    fence_start: int = 0
    heading: int | None = None
    """The heading whose text has not begun."""
    paragraph: int | None = None
    """The start of the previous line, if it is the first and only one of a paragraph."""
    after_break: bool = True
    """Whether the previous line ended a block."""

    def read(self, start: int, line: str) -> None:
        if self.fence:
            self._read_code(start, line)
        elif not line or line.isspace():
            self.paragraph, self.after_break = None, True
        elif fence := _FENCE.match(line):
            self._begin_text(start, line)
            self.outline.blocks.append(start)
            self.fence, self.fence_start = fence["mark"], start
            self.paragraph, self.after_break = None, False
        elif heading := _HEADING.match(line):
            self._begin_text(start, line)
            self._add_heading(start, len(heading["mark"]))
        elif self.paragraph is not None and (underline := _UNDERLINE.match(line)):
            self._add_heading(self.paragraph, 1 if underline["mark"][0] == "=" else 2)
        else:
            self._begin_text(start, line)
            self._read_text(start, line)

    def finish(self, end: int) -> None:
        if self.fence:
            self.outline.unbreakable.append(Span(self.fence_start, end))

    def _read_code(self, start: int, line: str) -> None:
        marker = line.strip()
        if len(marker) >= len(self.fence) and not marker.strip(self.fence[0]):
            self.outline.unbreakable.append(Span(self.fence_start, start + len(line)))
            self.fence, self.after_break = "", True

    def _add_heading(self, start: int, depth: int) -> None:
        self.outline.headings[depth - 1].append(start)
        self.heading = start
        self.paragraph, self.after_break = None, True

    def _begin_text(self, start: int, line: str) -> None:
        """Tie the preceding heading to the first character of the text that begins here."""
        if self.heading is not None:
            indent = len(line) - len(line.lstrip())
            self.outline.unbreakable.append(Span(self.heading, start + indent + 1))
            self.heading = None

    def _read_text(self, start: int, line: str) -> None:
        is_part = _ITEM_OR_ROW.match(line) is not None
        if self.after_break and not _INDENTED.match(line):
            self.outline.blocks.append(start)
        elif is_part or self.after_break:
            self.outline.parts.append(start)
        self.paragraph = start if self.after_break and not is_part else None
        self.after_break = False
