"""Hits by chunk, and the texts to which the hits on cues lead. Read transactions only."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from agentctx.storage.chunk_texts import ChunkTexts, Piece, stored_cues
from agentctx.storage.file.driver import Connection
from agentctx.storage.search import CUE_OVERFETCH, Hit, best_of

_CUES = """SELECT chunks.id, chunks.cue, chunks.start_at, chunks.end_at, chunks.hash, entries.attributes,
      shown.id
    FROM json_each(?) hit CROSS JOIN chunks ON chunks.id = hit.value AND chunks.cue <> 0
    CROSS JOIN entries ON entries.seq = chunks.entry
    LEFT JOIN chunks shown ON +shown.entry = entries.seq AND +shown.ordinal = 0 AND shown.cue = 0
      AND shown.id = (SELECT id FROM chunks WHERE entry = entries.seq AND ordinal = 0)"""
"""The cues among the hits, each with the first chunk of its entry's text.

Looked up by id, that chunk is read from its row: a damaged index could return the wrong row."""


def best_per_chunk(find: Callable[[int], list[Hit]], limit: int) -> list[Hit]:
    """Return the hits of the first `limit` chunks in order: for each the best by text and the best by a cue.

    `find` returns the first hits; it is asked for more, so that cues of one entry do not displace others.
    """
    count = limit
    hits = find(count)
    while any(hit.cue for hit in hits) and len({hit.chunk for hit in hits}) < limit:
        count *= CUE_OVERFETCH
        more = find(count)
        if len(more) == len(hits):
            break
        hits = more
    return best_of(hits, limit)


def resolve_cues(conn: Connection, hits: Sequence[Hit]) -> list[Hit]:
    """Replace the chunks of cues (`cue`) by the texts they lead to; drop damaged cues."""
    cues = [hit.chunk for hit in hits if hit.cue]
    if not cues:
        return list(hits)
    shown: dict[int, int | None] = {}
    for chunk, *piece, digest, attributes, first in conn.execute(_CUES, (json.dumps(cues),)):
        texts = ChunkTexts("", stored_cues(attributes), "", "", "")
        shown[chunk] = first if texts.is_sound(Piece(*piece), digest) else None
    resolved = []
    for hit in hits:
        if not hit.cue:
            resolved.append(hit)
        elif (text := shown.get(hit.chunk)) is not None:
            resolved.append(hit._replace(chunk=text, cue=hit.chunk))
    return resolved
