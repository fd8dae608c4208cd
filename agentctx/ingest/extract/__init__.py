"""Files into text with places. Pure: bytes in, text out, no files and no network."""

from agentctx.ingest.extract.base import Extracted, Limits, NotIngestible, Refusal
from agentctx.ingest.extract.registry import extract, known_suffixes, surely_binary

__all__ = ["Extracted", "Limits", "NotIngestible", "Refusal", "extract", "known_suffixes", "surely_binary"]
