"""Extracts text with places from files. Pure: bytes in, text out, without file or network access."""

from agentctx.ingest.extract.base import Extracted, ExtractLimits, ExtractRefusal, NotIngestible
from agentctx.ingest.extract.registry import extract, is_surely_binary, known_suffixes

__all__ = [
    "ExtractLimits",
    "ExtractRefusal",
    "Extracted",
    "NotIngestible",
    "extract",
    "is_surely_binary",
    "known_suffixes",
]
