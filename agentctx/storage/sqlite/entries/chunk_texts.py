"""The texts of the stored chunks of a version."""

from __future__ import annotations

from typing import Final

from agentctx.sqlite.driver import Connection
from agentctx.storage.chunk_texts import ChunkTexts, stored_cues

CUE_BYTES: Final = """CASE WHEN instr(entries.attributes, '"cues":') AND json_valid(entries.attributes)
    THEN coalesce(octet_length(json_extract(entries.attributes, '$.cues')), 0) ELSE 0 END"""
"""SQL for the size of the cues in a row of `entries`."""


def texts_of_version(conn: Connection, seq: int) -> ChunkTexts:
    """Return the texts of a stored version, damaged or not."""
    content, attributes, labels, header, scope = conn.execute(
        "SELECT content, attributes, labels, header, scope FROM entries WHERE seq = ?", (seq,)
    ).fetchone()
    return ChunkTexts(str(content), stored_cues(attributes), labels, header, scope)
