"""The text that is embedded for a chunk. Its template is part of a space's fingerprint."""

from __future__ import annotations

from hashlib import sha256

TEMPLATE = "header-newline-chunk/1"


def embedding_text(header: str, chunk: str) -> str:
    """Prepend the header: without the agent's name in it, dense recall on conversations drops by a third."""
    return f"{header}\n{chunk}" if header else chunk


def text_hash(text: str) -> bytes:
    """Return the SHA-256 of the embedded text, the part of a job's fencing token that detects an edit."""
    return sha256(text.encode()).digest()
