"""Extracts the values of Excel workbooks (.xlsx, .xlsm), row by row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from agentctx.ingest.extract.base import ExtractedText, ExtractLimits, documents_library
from agentctx.ingest.extract.builder import Budget, TextBuilder, table_row
from agentctx.ingest.extract.office_package import checked_package

_MIDNIGHT = dt.time()


def extract_workbook(data: bytes, limits: ExtractLimits) -> ExtractedText:
    """Extract each sheet's name as a heading, then its rows as `| a | b |`; unit `sheet`.

    Dates are ISO 8601; a formula yields the value stored in the file. Rows without values and cells beyond
    `limits.cells` are left out; the latter are noted. Hidden sheets count; charts and comments are left out.

    Raises:
        NotIngestible: encrypted, damaged, without values, over another limit, or openpyxl is not installed.
    """
    builder = TextBuilder("sheet", Budget(limits, len(data)))
    package = checked_package(data, "Excel", builder.budget)
    with documents_library("Excel"):
        import openpyxl

        book = openpyxl.load_workbook(package, read_only=True, data_only=True, keep_links=False)
        try:
            notes = _write_sheets(book, builder, limits.cells)
        finally:
            book.close()
    return builder.finish(empty="has no text", notes=notes)


def _write_sheets(book: Any, builder: TextBuilder, cells: int) -> tuple[str, ...]:
    """Write the sheets; return a note if the limit cut some off."""
    left = cells
    for number, name in enumerate(book.sheetnames, start=1):
        sheet = book[name]
        if not hasattr(sheet, "reset_dimensions"):
            continue  # a chart sheet
        # The dimensions in the file are often wrong, and a crafted file can make them huge.
        sheet.reset_dimensions()
        heading = f"# {' '.join(name.split())}"
        for row_number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
            left -= max(1, len(values))
            if left < 0:
                return (f"left out after {cells:,} cells: row {row_number:,} of sheet {name!r} and the rest",)
            if any(value is not None for value in values):
                heading = _write_row(values, heading, builder, number)
    return ()


def _write_row(values: Iterable[Any], heading: str, builder: TextBuilder, number: int) -> str:
    """Write the row, preceded by `heading` if that is not empty. Return the heading still to be written."""
    builder.budget.check_time()
    row = table_row(list(map(cell_text, values)))
    if not row:
        return heading
    if heading:
        builder.append("\n\n")
        builder.write(heading + "\n", number)
    builder.append("\n")
    builder.write(row, number)
    return ""


def cell_text(value: object) -> str:
    """Format a value as a person would write it: at most 15 digits, as in Excel, and dates in ISO 8601."""
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return format(value, ".15g")
        case dt.datetime() if value.time() == _MIDNIGHT:
            return value.date().isoformat()
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case _:
            return str(value)
