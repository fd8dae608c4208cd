"""Extracts readable text from HTML, with the source line of each piece."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser

from agentctx.ingest.extract.base import ExtractedText, ExtractLimits
from agentctx.ingest.extract.blocks import BlockWriter
from agentctx.ingest.extract.builder import Budget, TextBuilder
from agentctx.ingest.extract.decode import decode

_CHARSET = re.compile(rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)
_CHARSET_WITHIN = 4096

_HEADING = re.compile("h([1-6])")
_HAS_MAIN_HEADING = re.compile(r"<h1[\s>]", re.IGNORECASE)

_RAW = frozenset({"script", "style"})
_NOISE = frozenset(
    {
        *("template", "noscript", "svg", "nav", "iframe", "canvas", "audio", "video"),
        *("select", "button", "textarea"),
    }
)
_CLOSING_NOISE = re.compile(rf"</({'|'.join(_NOISE)})", re.IGNORECASE | re.ASCII)

_PARAGRAPHS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "center", "details", "dialog", "div", "dl"),
        *("fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "main", "menu"),
        *("p", "section", "summary"),
    }
)
_LINES = frozenset({"dt", "dd", "option", "legend", "caption"})
_LISTS = frozenset({"ul", "ol"})


def extract_html(data: bytes, limits: ExtractLimits) -> ExtractedText:
    """Extract readable text: headings with `#`, lists, fenced <pre>, table rows, paragraphs.

    The byte order mark gives the charset; otherwise it is UTF-8 if the bytes are valid, or what <meta> says.
    Scripts, styles, comments, navigation, controls, drawings and all attributes are dropped. The title
    becomes a heading if there is no <h1>. Unit `line`: each word's place is its line in the source, where LF,
    CRLF and CR end a line.

    Raises:
        NotIngestible: binary, undecodable, without text, or over a limit.
    """
    charset = _CHARSET.search(data[:_CHARSET_WITHIN])
    decoded = decode(data, declared=charset[1].decode("ascii") if charset else None)
    builder = TextBuilder("line", Budget(limits, len(data)))
    # With LF as the only line break, lines are counted the same way here and in the text.
    source = re.sub("[\x0b\x0c]", " ", decoded.text.replace("\r\n", "\n").replace("\r", "\n"))
    _Reader(source, builder).read()
    return replace(builder.finish(empty="has no text"), notes=decoded.notes)


class _Reader(HTMLParser):
    """Translates tags into writer calls, and resolves character references while their place is known."""

    def __init__(self, source: str, builder: TextBuilder) -> None:
        super().__init__(convert_charrefs=False)
        # The parser fails on unknown marked sections; with this change it treats them as comments.
        self._source = source.replace("<![", "<!_")
        self._budget = builder.budget
        self._writer = BlockWriter(builder)
        self._line_ends = [match.start() for match in re.finditer("\n", source)]
        self._last_closing = {match[1].lower(): match.start() for match in _CLOSING_NOISE.finditer(source)}
        self._title_is_heading = _HAS_MAIN_HEADING.search(source) is None
        self._dropping = ""
        """The element whose content is being dropped, or ""."""
        self._depth = 0

    def read(self) -> None:
        self.feed(self._source)
        self.close()
        self._writer.finish()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - HTMLParser's
        self._budget.check_time()
        if self._dropping:
            self._depth += tag == self._dropping
        # An unclosed element is kept, or it would swallow the rest of the page.
        elif tag in _RAW or (tag in _NOISE and self._last_closing.get(tag, -1) > self._offset()):
            self._dropping, self._depth = tag, 1
        else:
            self._start(tag)

    def handle_endtag(self, tag: str) -> None:
        self._budget.check_time()
        if self._dropping:
            self._depth -= tag == self._dropping
            if self._depth == 0:
                self._dropping = ""
        else:
            self._end(tag)

    def handle_data(self, data: str) -> None:
        self._budget.check_time()
        if not self._dropping:
            self._writer.text(data, self.getpos()[0])

    def handle_charref(self, name: str) -> None:
        self.handle_data(html.unescape(f"&#{name};"))

    def handle_entityref(self, name: str) -> None:
        ended = f"&{name};"
        source = ended if self._source.startswith(ended, self._offset()) else f"&{name}"
        self.handle_data(html.unescape(source))

    def handle_comment(self, data: str) -> None:  # noqa: ARG002 - HTMLParser's
        self._budget.check_time()

    def _offset(self) -> int:
        line, column = self.getpos()
        return column + (self._line_ends[line - 2] + 1 if line > 1 else 0)

    def _start(self, tag: str) -> None:
        writer = self._writer
        if heading := _HEADING.fullmatch(tag):
            writer.begin_heading(int(heading[1]))
        elif tag == "title" and self._title_is_heading:
            writer.begin_heading(1)
        elif tag in _PARAGRAPHS or tag == "title":
            writer.paragraph()
        elif tag in _LINES or tag == "br":
            writer.line(self.getpos()[0])
        elif tag in _LISTS:
            writer.begin_list(is_numbered=tag == "ol")
        elif tag in _STARTS:
            _STARTS[tag](writer)

    def _end(self, tag: str) -> None:
        writer = self._writer
        if _HEADING.fullmatch(tag) or tag == "title":
            writer.end_heading()
        elif tag in _PARAGRAPHS:
            writer.paragraph()
        elif tag in _LINES:
            writer.line(self.getpos()[0])
        elif tag in _LISTS:
            writer.end_list()
        elif tag in _ENDS:
            _ENDS[tag](writer)


_STARTS = {
    "li": BlockWriter.begin_item,
    "pre": BlockWriter.begin_code,
    "table": BlockWriter.table_edge,
    "tr": BlockWriter.begin_row,
    "td": BlockWriter.begin_cell,
    "th": BlockWriter.begin_cell,
}
_ENDS = {
    "li": BlockWriter.end_item,
    "pre": BlockWriter.end_code,
    "table": BlockWriter.table_edge,
    "tr": BlockWriter.end_row,
    "td": BlockWriter.end_cell,
    "th": BlockWriter.end_cell,
}
