"""Split texts into chunks with positions. No I/O."""

from agentctx.text.chunking.adapter import ChunkerPositionAdapter
from agentctx.text.chunking.base import (
    Chunker,
    Document,
    PositionAwareChunk,
    PositionAwareChunker,
    Span,
    is_position_aware_chunker,
    spans_of,
)
from agentctx.text.chunking.entry import CHUNKING_VERSION, chunk_entry
from agentctx.text.chunking.markdown import MarkdownChunker
from agentctx.text.chunking.span_chunker import (
    RecursiveCharacterChunker,
    generate_chunk_id,
    generate_pa_chunk_id,
)

__all__ = [
    "CHUNKING_VERSION",
    "Chunker",
    "ChunkerPositionAdapter",
    "Document",
    "MarkdownChunker",
    "PositionAwareChunk",
    "PositionAwareChunker",
    "RecursiveCharacterChunker",
    "Span",
    "chunk_entry",
    "generate_chunk_id",
    "generate_pa_chunk_id",
    "is_position_aware_chunker",
    "spans_of",
]
