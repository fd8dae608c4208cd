"""Text files of every kind: the text as it is."""

from __future__ import annotations

from agentctx.ingest.extract.base import Extracted, ExtractLimits, ExtractRefusal, NotIngestible
from agentctx.ingest.extract.builder import Budget
from agentctx.ingest.extract.decode import decode


def extract_plain(data: bytes, limits: ExtractLimits) -> Extracted:
    """The decoded text, character for character, line breaks included; see `decode`."""
    text = decode(data)
    Budget(limits, len(data)).spend(len(text))
    if not text or text.isspace():
        raise NotIngestible(ExtractRefusal.EMPTY, "empty")
    return Extracted(text, "line", ((0, 1),))
