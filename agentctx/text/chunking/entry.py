"""The way entries are split, the same for all models and stores."""

from __future__ import annotations

import re
from bisect import bisect_right

from agentctx.text.chunking.base import Span
from agentctx.text.chunking.boundaries import separator_levels
from agentctx.text.chunking.markdown import markdown_layout
from agentctx.text.chunking.packing import Layout, PackLimits, pack
from agentctx.text.chunking.weights import CharacterMeasure, TextMeasure, WeightTable

CHUNKING_VERSION = 2
"""Stored with every chunk. Raise it whenever any text is split differently than before."""

ENTRY_LIMITS = PackLimits(chunk_size=800, chunk_overlap=100)
"""In Latin characters: about 200 tokens, below the 256 of the embedded model."""

MARKDOWN_SUFFIXES = (
    *(".md", ".markdown", ".mdx"),
    *(".html", ".htm", ".xhtml", ".ipynb", ".docx", ".pptx", ".pptm", ".xlsx", ".xlsm"),
)
"""Sources whose text is Markdown; the second line lists formats that are converted to it on import."""

_SENTENCES = (". ", "! ", "? ", "。", "！", "？", "।", "؟ ", "۔ ")  # noqa: RUF001 - of other scripts
_CLAUSES = ("; ", ", ", "；", "，", "、", "، ")  # noqa: RUF001 - of other scripts
_WORDS = (" ", "\u3000", "\t")
_LEVELS = (("\n\n", "\n\r\n"), ("\n",), _SENTENCES, _CLAUSES, _WORDS)

# The first code point of each range, and the weight of its characters: about the number of tokens in common
# vocabularies, in quarters.
_RANGES = (
    (0x0000, 1),  # Latin and its marks
    (0x0370, 2),  # Greek, Cyrillic, Hebrew, Arabic, the scripts of India, Thai, Georgian
    (0x1100, 4),  # Hangul letters
    (0x1200, 2),  # Ethiopic, Cherokee, Khmer, Mongolian
    (0x1E00, 1),  # Latin with more marks
    (0x1F00, 2),  # Greek with more marks
    (0x2000, 1),  # punctuation, currency
    (0x2100, 2),  # symbols, arrows, box drawing, Coptic
    (0x2E80, 4),  # CJK, kana, Bopomofo, Yi
    (0xA4D0, 2),  # scripts of Africa and Asia
    (0xA960, 4),  # Hangul letters
    (0xA980, 2),  # Javanese, Cham, Meetei
    (0xAC00, 4),  # Hangul syllables
    (0xD800, 2),  # private use
    (0xF900, 4),  # CJK compatibility
    (0xFB00, 2),  # presentation forms
    (0xFE30, 4),  # CJK compatibility forms
    (0xFE50, 2),  # Arabic forms
    (0xFF00, 4),  # full width forms
    (0x10000, 4),  # emoji, rare CJK, ancient scripts
)
_RANGE_STARTS = tuple(start for start, _ in _RANGES)
_HEAVIEST = max(weight for _, weight in _RANGES)
# Compiled on first use: 4 ms that the daemon's start does not take.
_HEAVIER_THAN_LATIN = "[\u0370-\u1dff\u1f00-\u1fff\u2100-\U0010ffff]"


def character_weight(character: str) -> int:
    """Return how many Latin characters it is worth: 1, 2 (other alphabets) or 4 (CJK, Hangul, emoji)."""
    return _RANGES[bisect_right(_RANGE_STARTS, ord(character)) - 1][1]


_WEIGHTS = WeightTable(character_weight)


def chunk_entry(content: str, *, source: str | None = None) -> list[Span]:
    """Return the positions of an entry's chunks, in order.

    Chunks have about 800 Latin characters, fewer in denser scripts, and overlap by about 100. Cuts are at
    boundaries of paragraphs, lines, sentences, clauses and words, or follow the structure if `source` names
    Markdown. A text that fits is one chunk, from 0 to the end. Every character is in a chunk, except for
    whitespace: blank chunks are left out, so a blank entry has no chunks.
    """
    if not content or content.isspace():
        return []
    heaviest = 1 if content.isascii() else _HEAVIEST
    if len(content) * heaviest <= ENTRY_LIMITS.chunk_size:
        return [Span(0, len(content))]
    measure = _measure(content)
    if measure.between(0, len(content)) <= ENTRY_LIMITS.chunk_size:
        return [Span(0, len(content))]
    levels = separator_levels(content, _LEVELS)
    layout = Layout(levels)
    if source is not None and source.lower().endswith(MARKDOWN_SUFFIXES):
        layout = markdown_layout(content, measure, ENTRY_LIMITS.chunk_size, levels)
    spans = pack(content, measure, layout, ENTRY_LIMITS)
    return [span for span in spans if not content[span.start : span.end].isspace()]


def _measure(content: str) -> TextMeasure:
    if content.isascii() or re.search(_HEAVIER_THAN_LATIN, content) is None:
        return CharacterMeasure(len(content))
    return _WEIGHTS.measure(content)
