"""What the XML of Word and PowerPoint has in common: paragraphs, runs and tables, by the same local names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Element = Any
"""An lxml element; lxml publishes no types."""

_CHARACTERS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_DROPPED = frozenset({"del", "moveFrom", "Fallback", "pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr"})
"""Deleted text, the copies of drawings for old readers, and properties."""


def local_name(element: Element) -> str:
    """The tag without its namespace; nothing for comments and the like."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def descend(parent: Element, *names: str) -> Iterator[Element]:
    """The nearest descendants with one of these names, in document order; they are not looked into."""
    for child in parent.iterchildren():
        name = local_name(child)
        if name in names:
            yield child
        elif name and name not in _DROPPED:
            yield from descend(child, *names)


def paragraph_text(paragraph: Element) -> str:
    """The text as it is seen; the paragraphs of text boxes in it begin new lines."""
    return "".join(_pieces(paragraph)).strip()


def table_rows(table: Element) -> Iterator[list[str]]:
    """The texts of the cells, row by row; a table within a cell is read into the cell."""
    for row in descend(table, "tr"):
        yield [" ".join(_cell_texts(cell)) for cell in descend(row, "tc")]


def _cell_texts(cell: Element) -> Iterator[str]:
    for block in descend(cell, "p", "tbl"):
        if local_name(block) == "p":
            yield paragraph_text(block)
        else:
            yield from (text for row in table_rows(block) for text in row)


def _pieces(element: Element) -> Iterator[str]:
    for child in element.iterchildren():
        name = local_name(child)
        if name == "t":
            yield child.text or ""
        elif name in _CHARACTERS:
            yield _CHARACTERS[name]
        elif name and name not in _DROPPED:
            if name == "p":
                yield "\n"
            yield from _pieces(child)
