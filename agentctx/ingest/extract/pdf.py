"""Extracts the text of PDF pages."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from agentctx.config.extras import install_hint
from agentctx.ingest.extract.base import (
    ExtractedText,
    ExtractLimits,
    ExtractRefusal,
    NotIngestible,
    documents_library,
)
from agentctx.ingest.extract.builder import Budget, TextBuilder, TimedBytes

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

# The lookbehind and `++` keep matching linear: a run of spaces is tried only from its beginning.
_TRAILING = re.compile(r"(?<![^\S\n])[^\S\n]++$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")

# pypdf logs every oddity of a file; without a handler these messages would go to stderr.
logging.getLogger("pypdf").addHandler(logging.NullHandler())


def extract_pdf(data: bytes, limits: ExtractLimits) -> ExtractedText:
    """Extract the text of the pages in order; unit `page`, counted from 1 whatever is printed on the page.

    Encrypted files are read if the empty password opens them.

    Raises:
        NotIngestible: encrypted, damaged, without text, over a limit, or pypdf is not installed.
    """
    builder = TextBuilder("page", Budget(limits, len(data)))
    with documents_library("PDF"):
        for number, page in enumerate(_open(TimedBytes(data, builder.budget)).pages, start=1):
            text = _page_text(page, builder.budget, limits, len(data))
            if text:
                builder.append("\n\n")
                builder.write(text, number)
            builder.budget.check_time()
    return builder.finish(empty="has no text (scanned?)")


def _open(file: TimedBytes) -> PdfReader:
    from pypdf import PasswordType, PdfReader
    from pypdf.errors import DependencyError

    try:
        reader = PdfReader(file)
        if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
            raise NotIngestible(ExtractRefusal.ENCRYPTED, "encrypted with a password")
    except DependencyError as error:
        raise NotIngestible(
            ExtractRefusal.ENCRYPTED,
            "encrypted with AES",
            hint=install_hint("documents"),
        ) from error
    return reader


def _page_text(page: PageObject, budget: Budget, limits: ExtractLimits, size: int) -> str:
    """Extract a page. The visitors stop an endless one: pypdf limits each content stream, not their sum."""
    page_budget = Budget(limits, size)

    def on_operator(*_: Any) -> None:
        budget.check_time()

    def on_text(text: str, *_: Any) -> None:
        page_budget.spend(len(text))

    text = page.extract_text(visitor_operand_before=on_operator, visitor_text=on_text)
    return _BLANK_LINES.sub("\n\n", _TRAILING.sub("", text)).strip()
