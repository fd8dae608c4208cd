"""Real files of every format, small, made with the libraries that write them."""

from __future__ import annotations

import datetime as dt
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

HTML = b"""<!DOCTYPE html>
<html>
<head><meta charset="utf-8"><title>Harbour &amp; port</title>
<style>p { color: red }</style><script>var menu = "<p>script</p>";</script></head>
<body>
<nav><a href="/">Home</a></nav>
<!-- a comment -->
<p>The first paragraph
spans   two lines, with caf&eacute; and <b>bo</b>ld.</p>
<h2>Ships</h2>
<ul><li>sloop</li>
<li>ketch<ol><li>small</li><li>large</li></ol></li></ul>
<table>
<tr><th>Name</th><th>Mast</th></tr>
<tr><td>Ann</td><td></td><td>2</td></tr>
</table>
<pre>

for ship in fleet:
    sail(ship &lt; 3)

done
</pre>
<p>The end.</p>
</body></html>
"""


def pdf(pages: Sequence[str]) -> bytes:
    """A PDF with one line of Latin text on each page, written by hand."""
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, text in enumerate(pages):
        shown = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * index} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(pdf_stream(f"BT /F1 12 Tf 50 700 Td ({shown}) Tj ET".encode("latin-1")))
    return pdf_file(objects)


def pdf_stream(content: bytes, entries: str = "") -> bytes:
    return f"<< /Length {len(content)} {entries} >>\nstream\n".encode() + content + b"\nendstream"


def pdf_file(objects: Sequence[bytes]) -> bytes:
    """The objects, numbered from 1, with the table that finds them; the first is the catalog."""
    out = bytearray(b"%PDF-1.7\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(out)


def encrypted_pdf(user_password: str) -> bytes:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(["secret words"]))))
    writer.encrypt(user_password, owner_password="owner", algorithm="RC4-128")
    return written(writer.write)


def word() -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Harbour plan", level=0)
    document.add_paragraph("The first paragraph.")
    document.add_heading("Ships", level=2)
    document.add_paragraph("sloop", style="List Bullet")
    document.add_paragraph("ketch", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(_cells(table), ("Name", "Masts", "Ann", "2"), strict=True):
        cell.text = text
    document.add_paragraph("The end. \N{ANCHOR}")
    return written(document.save)


def slides() -> bytes:
    import pptx
    from pptx.util import Inches

    deck = pptx.Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "Harbour plan"
    first.placeholders[1].text_frame.text = "sloop\nketch"
    first.notes_slide.notes_text_frame.text = "Say hello first."
    deck.slides.add_slide(deck.slide_layouts[6])
    third = deck.slides.add_slide(deck.slide_layouts[6])
    corner = Inches(1)
    table = third.shapes.add_table(2, 2, corner, corner, corner, corner).table
    for cell, text in zip(_cells(table), ("Name", "Masts", "Ann", "2"), strict=True):
        cell.text = text
    return written(deck.save)


def workbook(sheets: Mapping[str, Sequence[Sequence[Any]]] | None = None) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in (sheets or WORKBOOK_ROWS).items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return written(book.save)


WORKBOOK_ROWS: Mapping[str, Sequence[Sequence[Any]]] = {
    "Fleet": [
        ["Name", "Launched", "Length"],
        ["Ann", dt.datetime(2024, 1, 31), 12.5],  # noqa: DTZ001 - workbooks know no zones
        [],
        ["Bea", None, 3.0],
    ],
    "Empty": [],
    "Notes": [["two\nlines", True]],
}


def notebook() -> bytes:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "source": ["# Harbour\n", "A plan."], "metadata": {}},
        {"cell_type": "raw", "source": "raw", "metadata": {}},
        {
            "cell_type": "code",
            "source": ["print('sloop')"],
            "outputs": [{"output_type": "stream", "text": ["an output"]}],
            "metadata": {},
            "execution_count": 1,
        },
    ]
    metadata = {"language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}).encode()


def repacked(package: bytes, changed: Mapping[str, bytes]) -> bytes:
    """The Office file with some of its parts exchanged or added."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(package)) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            if name not in changed:
                new.writestr(name, old.read(name))
        for name, content in changed.items():
            new.writestr(name, content)
    return out.getvalue()


def part(package: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        return archive.read(name)


def _cells(table: Any) -> list[Any]:
    return [cell for row in table.rows for cell in row.cells]


def written(write: Callable[[io.BytesIO], object]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()
