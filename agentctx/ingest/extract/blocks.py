"""Writes headings, paragraphs, lists, tables and code as Markdown-like text."""

from __future__ import annotations

from agentctx.ingest.extract.builder import TextBuilder, fence_around

_DEEPEST_INDENT = 8

_SPACE, _LINE, _BLANK = " ", "\n", "\n\n"
_RANKS = {"": 0, _SPACE: 1, _LINE: 2, _BLANK: 3}


class BlockWriter:
    """Turns a stream of block events and texts into Markdown; it buffers only the current code block.

    Events may come in any order and need not be closed, as in real-world HTML. Each text comes with the
    number of the source line on which it starts.
    """

    def __init__(self, builder: TextBuilder) -> None:
        self._builder = builder
        self._gap = ""
        """Whitespace to write before the next text."""
        self._prefix = ""
        """Heading or item marker to write before the next text."""
        self._in_heading = False
        self._lists: list[int | None] = []
        """The number of the last item of each open list; None for bulleted lists."""
        self._in_row = False
        self._row_has_text = False
        self._pending_cells = 0
        self._code: list[tuple[str, int]] | None = None

    def text(self, data: str, line: int) -> None:
        """Add text; whitespace is collapsed, except in code."""
        if self._code is not None:
            self._code.append((data, line))
            return
        for index, piece in enumerate(data.split("\n")):
            words = piece.split()
            if index or piece[:1].isspace():
                self._request_gap(_SPACE)
            if words:
                self._write(" ".join(words), line + index)
                if piece[-1].isspace():
                    self._request_gap(_SPACE)

    def paragraph(self) -> None:
        self._end_block(_BLANK)

    def line(self, line: int) -> None:
        """Add a line break; `line` is its line number in the source."""
        if self._code is not None:
            self._code.append(("\n", line))
        else:
            self._end_block(_LINE)

    def begin_heading(self, level: int) -> None:
        if self._code is None:
            self.end_row()
            self._request_gap(_BLANK)
            self._prefix, self._in_heading = "#" * level + " ", True

    def end_heading(self) -> None:
        if self._in_heading:
            self._prefix, self._in_heading = "", False
        self.paragraph()

    def begin_list(self, *, is_numbered: bool) -> None:
        self._end_block(_LINE if self._lists else _BLANK)
        self._lists.append(0 if is_numbered else None)

    def end_list(self) -> None:
        if self._lists:
            self._lists.pop()
        self._prefix = ""
        self._end_block(_LINE if self._lists else _BLANK)

    def begin_item(self) -> None:
        self._end_block(_LINE)
        if self._in_row or self._code is not None:
            return
        bullet = "- "
        if self._lists and (last := self._lists[-1]) is not None:
            self._lists[-1] = last + 1
            bullet = f"{last + 1}. "
        self._prefix = "  " * min(len(self._lists) - 1, _DEEPEST_INDENT) + bullet
        self._in_heading = False

    def end_item(self) -> None:
        if not self._in_heading:
            self._prefix = ""
        self._end_block(_LINE)

    def table_edge(self) -> None:
        """Begin or end a table."""
        self.end_row()
        self.paragraph()

    def begin_row(self) -> None:
        self.end_row()
        self._end_block(_LINE)
        self._in_row = True

    def end_row(self) -> None:
        """Close the row; a row without text writes nothing."""
        if self._row_has_text:
            self._gap = ""
            self._builder.append(" |")
        self._in_row = self._row_has_text = False
        self._pending_cells = 0
        self._end_block(_LINE)

    def begin_cell(self) -> None:
        if self._code is not None:
            return
        if not self._in_row:
            self.begin_row()
        self._pending_cells += 1
        if self._row_has_text:
            self._gap = ""

    def end_cell(self) -> None:
        self._end_block(_LINE)

    def begin_code(self) -> None:
        if self._code is None:
            self.end_row()
            self.paragraph()
            self._code = []

    def end_code(self) -> None:
        """Write the code with its line breaks, in a fence longer than any inside it."""
        pieces, self._code = _trimmed(self._code or []), None
        if pieces:
            fence = fence_around("".join(text for text, _ in pieces))
            self._write(f"{fence}\n", pieces[0][1])
            for text, line in pieces:
                self._builder.write(text, line)
            self._builder.append(f"\n{fence}")
        self.paragraph()

    def finish(self) -> None:
        self.end_code()
        self.end_row()

    def _end_block(self, gap: str) -> None:
        """End the block, but keep a pending marker with its text, and a row or heading on one line."""
        if self._code is None and not self._prefix:
            self._request_gap(_SPACE if self._in_row or self._in_heading else gap)

    def _request_gap(self, gap: str) -> None:
        if _RANKS[gap] > _RANKS[self._gap]:
            self._gap = gap

    def _write(self, text: str, line: int) -> None:
        self._builder.append(self._gap)
        cells = ""
        if self._pending_cells:
            cells = (" |" if self._row_has_text else "|") + "  |" * (self._pending_cells - 1) + " "
            self._pending_cells, self._row_has_text = 0, True
        self._builder.write(cells + self._prefix + text, line)
        self._gap = self._prefix = ""


def _trimmed(pieces: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Strip leading blank lines and trailing whitespace from the code."""
    pieces = [piece for piece in pieces if piece[0]]
    while pieces and pieces[-1][0].isspace():
        pieces.pop()
    if pieces:
        text, line = pieces[-1]
        pieces[-1] = (text.rstrip(), line)
    return _without_leading_lines(pieces)


def _without_leading_lines(pieces: list[tuple[str, int]]) -> list[tuple[str, int]]:
    for index, (text, line) in enumerate(pieces):
        start = len(text) - len(text.lstrip())
        first_line = text.rfind("\n", 0, start) + 1
        if start < len(text):
            return [(text[first_line:], line + text.count("\n", 0, first_line)), *pieces[index + 1 :]]
    return []
