"""Ids of chunks: by content alone, as the specification has them, and by content and place."""

from __future__ import annotations

import hashlib

ID_HEX_DIGITS = 12


def generate_chunk_id(content: str) -> str:
    """`chunk_` and the first 12 hex digits of the SHA-256 of the UTF-8 of `content`."""
    return f"chunk_{_digest(content)}"


def generate_pa_chunk_id(content: str) -> str:
    """`pa_chunk_` and the first 12 hex digits of the SHA-256 of the UTF-8 of `content`."""
    return f"pa_chunk_{_digest(content)}"


def chunk_id_at(document_id: str, start: int, content: str) -> str:
    """`generate_pa_chunk_id(content)`, `_` and 12 hex digits of the place.

    Equal texts at two places have two ids, so that neither replaces the other in a store. Cutting a document
    again gives the same ids.
    """
    return f"{generate_pa_chunk_id(content)}_{_digest(f'{start}:{document_id}')}"


def _digest(content: str) -> str:
    # A lone surrogate has no UTF-8; passing it through gives every str an id.
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:ID_HEX_DIGITS]
