"""Extracts the text of slides and notes from PowerPoint presentations (.pptx)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentctx.ingest.extract.base import Extracted, ExtractLimits
from agentctx.ingest.extract.builder import Budget, TextBuilder, table_row
from agentctx.ingest.extract.documents_extra import documents_library
from agentctx.ingest.extract.office_package import (
    Element,
    checked_package,
    descend,
    local_name,
    paragraph_text,
    table_rows,
)

if TYPE_CHECKING:
    from pptx.slide import Slide

_TITLES = frozenset({"title", "ctrTitle"})
_MARGINS = frozenset({"sldNum", "dt", "ftr", "hdr"})
"""Page number, date, footer and header, the same on every slide."""


def extract_slides(data: bytes, limits: ExtractLimits) -> Extracted:
    """Extract titles with `#`, then other texts and tables in order, then the notes; unit `slide`.

    Hidden slides count. Charts, diagrams and pictures are left out.

    Raises:
        NotIngestible: encrypted, damaged, without text, over a limit, or python-pptx is not installed.
    """
    builder = TextBuilder("slide", Budget(limits, len(data)))
    package = checked_package(data, "PowerPoint", builder.budget)
    with documents_library("PowerPoint"):
        import pptx

        for number, slide in enumerate(pptx.Presentation(package).slides, start=1):
            builder.budget.check_time()
            for block in _slide_blocks(slide):
                builder.append("\n\n")
                builder.write(block, number)
    return builder.finish(empty="has no text")


def _slide_blocks(slide: Slide) -> Iterator[str]:
    yield from _blocks(slide.element)
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None:
        notes = frame.text.strip()
        if notes:
            yield f"Notes: {notes}"


def _blocks(slide: Element) -> Iterator[str]:
    for shape in descend(slide, "sp", "tbl"):
        if local_name(shape) == "tbl":
            text = "\n".join(filter(None, map(table_row, table_rows(shape))))
        else:
            text = _shape_text(shape)
        if text:
            yield text


def _shape_text(shape: Element) -> str:
    placeholder = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
    role = "" if placeholder is None else placeholder.get("type", "")
    text = "\n".join(filter(None, map(paragraph_text, descend(shape, "p"))))
    if not text or role in _MARGINS:
        return ""
    return "# " + " ".join(text.split()) if role in _TITLES else text
