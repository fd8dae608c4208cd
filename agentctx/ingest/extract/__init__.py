"""Files into text with places. Pure: bytes in, text out, no files and no network."""

from agentctx.ingest.extract.base import Extracted, ExtractLimits, ExtractRefusal, NotIngestible
from agentctx.ingest.extract.registry import extract, known_suffixes, surely_binary

__all__ = [
    "ExtractLimits",
    "ExtractRefusal",
    "Extracted",
    "NotIngestible",
    "extract",
    "known_suffixes",
    "surely_binary",
]
