"""Ids of chunks made from their content alone. Equal texts share an id: storage keys chunks by its own."""

from __future__ import annotations

import hashlib

ID_HEX_DIGITS = 12


def generate_chunk_id(content: str) -> str:
    """`chunk_` and the first 12 hex digits of the SHA-256 of the UTF-8 of `content`."""
    return f"chunk_{_digest(content)}"


def generate_pa_chunk_id(content: str) -> str:
    """`pa_chunk_` and the first 12 hex digits of the SHA-256 of the UTF-8 of `content`."""
    return f"pa_chunk_{_digest(content)}"


def _digest(content: str) -> str:
    # A lone surrogate has no UTF-8; passing it through gives every str an id.
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:ID_HEX_DIGITS]
