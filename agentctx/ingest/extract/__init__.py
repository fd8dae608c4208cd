"""Extracts text with places from files. Pure: bytes in, text out, without file or network access."""

from agentctx.ingest.extract.base import ExtractedText, ExtractLimits, ExtractRefusal, NotIngestible
from agentctx.ingest.extract.registry import check_encoding, extract, is_surely_binary

__all__ = [
    "ExtractLimits",
    "ExtractRefusal",
    "ExtractedText",
    "NotIngestible",
    "check_encoding",
    "extract",
    "is_surely_binary",
]
