"""Chooses the extractor for a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from agentctx.errors import InvalidInput
from agentctx.ingest.extract.base import (
    DEFAULT_LIMITS,
    ExtractedText,
    ExtractLimits,
    Extractor,
    ExtractRefusal,
    NotIngestible,
)
from agentctx.ingest.extract.builder import Budget
from agentctx.ingest.extract.decode import decode, decode_as, looks_binary
from agentctx.ingest.extract.documents import extract_slides, extract_word
from agentctx.ingest.extract.markup import extract_html
from agentctx.ingest.extract.notebook import extract_notebook
from agentctx.ingest.extract.office_package import package_members
from agentctx.ingest.extract.pdf import extract_pdf
from agentctx.ingest.extract.workbook import extract_workbook

_BY_SUFFIX: Mapping[str, Extractor] = {
    ".html": extract_html,
    ".htm": extract_html,
    ".xhtml": extract_html,
    ".ipynb": extract_notebook,
    ".pdf": extract_pdf,
    ".docx": extract_word,
    ".pptx": extract_slides,
    ".pptm": extract_slides,
    ".xlsx": extract_workbook,
    ".xlsm": extract_workbook,
}

_OLD_OFFICE = frozenset({".doc", ".ppt", ".xls"})

_MAIN_PARTS: Mapping[str, Extractor] = {
    "word/document.xml": extract_word,
    "ppt/presentation.xml": extract_slides,
    "xl/workbook.xml": extract_workbook,
}

_PDF_MARK = b"%PDF-"
_ZIP_MARK = b"PK\x03\x04"
_HTML_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)


def extract(
    path: PurePath, data: bytes, *, limits: ExtractLimits = DEFAULT_LIMITS, encoding: str | None = None
) -> ExtractedText:
    """Extract the text from a file's bytes. The suffix of `path`, else the bytes, determine the format; the
    path is never opened. The text of HTML, notebook, Word, PowerPoint and Excel files is Markdown. `encoding`
    is that of text files, HTML and notebooks; None: it is detected.

    Raises:
        NotIngestible: no text can be extracted; it holds the reason.
    """
    if not data:
        raise NotIngestible(ExtractRefusal.EMPTY, "empty")
    suffix = path.suffix.lower()
    if suffix in _OLD_OFFICE and not _by_content(data):
        raise NotIngestible(
            ExtractRefusal.UNSUPPORTED, f"{suffix} files are not supported", hint=f"Save it as {suffix}x."
        )
    extractor = _BY_SUFFIX.get(suffix) or _by_content(data) or extract_plain
    if encoding is None or extractor not in _OF_TEXT:
        return extractor(data, limits)
    decoded = decode_as(data, encoding)
    extracted = extractor(decoded.text.encode("utf-8", "replace"), limits)
    return replace(extracted, notes=(*decoded.notes, *extracted.notes))


def check_encoding(name: str) -> None:
    """Raise `InvalidInput` if Python knows no text encoding of this name."""
    try:
        b"text".decode(name, "replace")
    except (LookupError, ValueError):
        raise InvalidInput(
            f"Unknown encoding {name[:40]!r}.", hint="Use a name like cp1251, shift_jis or utf-16-le."
        ) from None


def is_surely_binary(path: PurePath, head: bytes) -> bool:
    """Whether the first bytes (8 KiB suffice) prove that `extract` would find no text, so that large
    binaries need not be read whole. False proves nothing.
    """
    is_other_format = path.suffix.lower() in _BY_SUFFIX or head.startswith((_PDF_MARK, _ZIP_MARK))
    return not is_other_format and looks_binary(head)


def _by_content(data: bytes) -> Extractor | None:
    if data.startswith(_PDF_MARK):
        return extract_pdf
    if data.startswith(_ZIP_MARK):
        members = package_members(data)
        return next((extractor for part, extractor in _MAIN_PARTS.items() if part in members), None)
    return extract_html if _HTML_START.match(data) else None


def extract_plain(data: bytes, limits: ExtractLimits) -> ExtractedText:
    """Return the decoded text unchanged, including its line breaks; see `decode`."""
    decoded = decode(data)
    text = decoded.text
    Budget(limits, len(data)).spend(len(text))
    if not text or text.isspace():
        raise NotIngestible(ExtractRefusal.EMPTY, "empty")
    return ExtractedText(text, "line", ((0, 1),), decoded.notes)


_OF_TEXT: tuple[Extractor, ...] = (extract_plain, extract_html, extract_notebook)
