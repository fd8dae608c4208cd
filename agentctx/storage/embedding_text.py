"""The text that is embedded for a chunk. Its template is part of a space's fingerprint."""

from __future__ import annotations

from hashlib import sha256

TEMPLATE = "header-newline-chunk/1"


def embedding_text(header: str, chunk: str) -> str:
    """Header and chunk: without the speaker in front, dense recall on conversations falls by a third."""
    return f"{header}\n{chunk}" if header else chunk


def text_hash(text: str) -> bytes:
    """SHA-256 of the embedded text: the part of a job's fencing token that notices an edit."""
    return sha256(text.encode()).digest()
