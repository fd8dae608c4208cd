"""Extracts the cell sources of Jupyter notebooks, without the outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from agentctx.ingest.extract.base import ExtractedText, ExtractLimits, ExtractRefusal, NotIngestible
from agentctx.ingest.extract.builder import Budget, TextBuilder, fence_around
from agentctx.ingest.extract.decode import decode


def extract_notebook(data: bytes, limits: ExtractLimits) -> ExtractedText:
    """Extract Markdown cells unchanged and code cells fenced; unit `cell`, counting every cell as editors do.

    Supports formats 3 and 4. Raw cells, outputs and attachments are left out.

    Raises:
        NotIngestible: not a notebook, without cell sources, or over a limit.
    """
    decoded = decode(data)
    notebook = _parsed(decoded.text)
    builder = TextBuilder("cell", Budget(limits, len(data)))
    metadata = notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    language = name if isinstance(name, str) and name.isidentifier() else ""
    for number, cell in enumerate(_cells(notebook), start=1):
        if text := _cell_text(cell, language):
            builder.append("\n\n")
            builder.write(text, number)
    return replace(builder.finish(empty="has no text in its cells"), notes=decoded.notes)


def _parsed(text: str) -> dict[str, Any]:
    if not text.strip():
        raise NotIngestible(ExtractRefusal.EMPTY, "empty")
    try:
        notebook = json.loads(text)
    except RecursionError as error:
        raise NotIngestible(ExtractRefusal.DAMAGED, "nested too deeply") from error
    except ValueError as error:
        raise NotIngestible(ExtractRefusal.DAMAGED, "damaged: not valid JSON") from error
    if not isinstance(notebook, dict):
        raise NotIngestible(ExtractRefusal.DAMAGED, "not a Jupyter notebook")
    return notebook


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    sheets = notebook.get("worksheets", [])
    groups = [notebook, *(sheets if isinstance(sheets, list) else [])]
    lists = [group["cells"] for group in groups if isinstance(group, dict) and "cells" in group]
    if not lists or not all(isinstance(cells, list) for cells in lists):
        raise NotIngestible(ExtractRefusal.DAMAGED, "not a Jupyter notebook")
    for cells in lists:
        for cell in cells:
            yield cell if isinstance(cell, dict) else {}


def _cell_text(cell: dict[str, Any], language: str) -> str:
    source = cell.get("source", cell.get("input"))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str) or not source.strip():
        return ""
    match cell.get("cell_type"):
        case "markdown":
            return source
        case "heading":
            level = cell.get("level")
            return "#" * (level if isinstance(level, int) and 1 <= level <= 6 else 1) + " " + source
        case "code":
            fence = fence_around(source)
            return f"{fence}{language}\n{source.strip(chr(10))}\n{fence}"
        case _:
            return ""
