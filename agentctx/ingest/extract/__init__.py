"""Extracts text with places from files. Pure: bytes in, text out, without file or network access."""

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
