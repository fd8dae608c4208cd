"""Entries and hits as the wire shows them. Pure."""

from __future__ import annotations

from agentctx.rag.service import Hit
from agentctx.storage.records import Change, Entry
from agentctx.stores.base import StoreResult
from agentctx.times import format_time
from agentctx.wire import EmbeddingState, EntryView, Passage, SaveResult


def embedding_state(*, embedded: bool, pending: bool) -> EmbeddingState:
    """`off` without an embedding provider, else whether anything is still owed."""
    if not embedded:
        return "off"
    return "pending" if pending else "done"


def save_result(result: StoreResult) -> SaveResult:
    saved = result.saved
    return SaveResult(
        id=saved.id,
        version=saved.version,
        changed=saved.change is not Change.NONE,
        redacted=list(result.redacted),
        embedding=embedding_state(embedded=saved.embedded, pending=saved.pending),
    )


def entry_view(entry: Entry) -> EntryView:
    return EntryView(
        id=entry.id,
        version=entry.version,
        live=entry.live,
        namespace=entry.namespace,
        collection=entry.collection,
        key=entry.key,
        session=entry.session or None,
        agent=entry.agent or None,
        content=entry.content,
        attributes=dict(entry.attributes),
        origin=entry.origin,
        trust=entry.trust,
        principal=entry.principal,
        created=format_time(entry.created),
        updated=format_time(entry.updated),
        expires=None if entry.expires is None else format_time(entry.expires),
        embedding=embedding_state(embedded=entry.embedded, pending=entry.pending),
    )


def passage(hit: Hit) -> Passage:
    entry = hit.chunk.entry
    return Passage(
        collection=entry.collection,
        id=entry.id,
        source_id=hit.source_id,
        version=entry.version,
        content=hit.chunk.content,
        distance=None if hit.distance is None else round(hit.distance, 6),
        score=round(hit.score, 6),
        start=hit.chunk.start,
        end=hit.chunk.end,
        session=entry.session or None,
        agent=entry.agent or None,
        origin=entry.origin,
        trust=entry.trust,
        created=format_time(entry.created),
        updated=format_time(entry.updated),
        # The location says what the record of the file is for.
        attributes={name: value for name, value in entry.attributes.items() if name != "file"},
        location=hit.chunk.location,
    )
