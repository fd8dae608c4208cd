"""Extracts the text of Word documents (.docx) and PowerPoint presentations (.pptx)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentctx.ingest.extract.base import ExtractedText, ExtractLimits, documents_library
from agentctx.ingest.extract.builder import Budget, TextBuilder, table_row
from agentctx.ingest.extract.office_package import (
    Element,
    checked_package,
    descend,
    local_name,
    paragraph_text,
    table_rows,
)

if TYPE_CHECKING:
    from docx.document import Document
    from pptx.slide import Slide

_HEADING_NAME = re.compile(r"heading ([1-9])", re.IGNORECASE)
_DEEPEST_HEADING = 6
_DEEPEST_INDENT = 8
_TITLES = frozenset({"title", "ctrTitle"})
_MARGINS = frozenset({"sldNum", "dt", "ftr", "hdr"})
"""Page number, date, footer and header, the same on every slide."""


def extract_word(data: bytes, limits: ExtractLimits) -> ExtractedText:
    """Extract headings with `#`, list items with `-`, tables as rows, text boxes where they are anchored.

    The program that shows a document decides where its pages end, so the unit is `line` and counts lines of
    the extracted text itself. Headers, footers, comments, footnotes and deleted text are left out.

    Raises:
        NotIngestible: encrypted, damaged, without text, over a limit, or python-docx is not installed.
    """
    builder = TextBuilder("line", Budget(limits, len(data)))
    package = checked_package(data, "Word", builder.budget)
    with documents_library("Word"):
        import docx

        _write_body(docx.Document(package), builder)
    return builder.finish(empty="has no text")


def _write_body(document: Document, builder: TextBuilder) -> None:
    levels = _heading_levels(document.styles.element)
    was_item = False
    for block in descend(document.element.body, "p", "tbl"):
        builder.budget.check_time()
        if local_name(block) == "tbl":
            text, is_item = _table(block), False
        else:
            text, is_item = _paragraph(block, levels)
        if text:
            builder.append("\n" if is_item and was_item else "\n\n")
            builder.write(text)
            was_item = is_item


def _paragraph(paragraph: Element, levels: dict[str, int]) -> tuple[str, bool]:
    """Return the text, marked as heading or list item, and whether it is a list item."""
    text = paragraph_text(paragraph)
    if not text:
        return "", False
    style = _value(paragraph.find("{*}pPr/{*}pStyle"))
    if level := levels.get(style, 0):
        return "#" * min(level, _DEEPEST_HEADING) + " " + " ".join(text.split()), False
    depth = _item_depth(paragraph, style)
    return (text, False) if depth is None else ("  " * depth + "- " + text, True)


def _item_depth(paragraph: Element, style: str) -> int | None:
    numbering = paragraph.find("{*}pPr/{*}numPr")
    if numbering is None:
        return 0 if style.startswith("List") else None
    depth = _value(numbering.find("{*}ilvl"))
    return min(int(depth), _DEEPEST_INDENT) if depth.isdecimal() else 0


def _heading_levels(styles: Element) -> dict[str, int]:
    """Map the id of each heading style to its level, from the style's name or its outline level."""
    levels = {}
    for style in styles.iterchildren("{*}style"):
        name = _value(style.find("{*}name"))
        outline = _value(style.find("{*}pPr/{*}outlineLvl"))
        if match := _HEADING_NAME.fullmatch(name):
            levels[_attribute(style, "styleId")] = int(match[1])
        elif name.lower() == "title":
            levels[_attribute(style, "styleId")] = 1
        elif outline.isdecimal() and int(outline) < 9:
            levels[_attribute(style, "styleId")] = int(outline) + 1
    return levels


def _value(element: Element | None) -> str:
    return "" if element is None else _attribute(element, "val")


def _attribute(element: Element, name: str) -> str:
    namespace = element.tag.rpartition("}")[0]
    return str(element.get(f"{namespace}}}{name}", ""))


def extract_slides(data: bytes, limits: ExtractLimits) -> ExtractedText:
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
    for shape in descend(slide.element, "sp", "tbl"):
        text = _table(shape) if local_name(shape) == "tbl" else _shape_text(shape)
        if text:
            yield text
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None:
        notes = frame.text.strip()
        if notes:
            yield f"Notes: {notes}"


def _shape_text(shape: Element) -> str:
    placeholder = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
    role = "" if placeholder is None else placeholder.get("type", "")
    text = "\n".join(filter(None, map(paragraph_text, descend(shape, "p"))))
    if not text or role in _MARGINS:
        return ""
    return "# " + " ".join(text.split()) if role in _TITLES else text


def _table(table: Element) -> str:
    return "\n".join(filter(None, map(table_row, table_rows(table))))
