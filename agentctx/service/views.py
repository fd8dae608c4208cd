"""Converts entries, hits and receipts to their wire format. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from agentctx import wire
from agentctx.service.rag.explain import Explanation, Ranks
from agentctx.service.rag.word_match import WordMatch
from agentctx.storage.audit import AuditRow
from agentctx.storage.audit import ChainVerdict as AuditOutcome
from agentctx.storage.injections import CandidateFigures, Receipt
from agentctx.storage.location import headings_of
from agentctx.storage.records import Change, Entry, SaveOutcome
from agentctx.storage.search import ResolvedChunk
from agentctx.storage.trust import NO_PROVENANCE, Provenance
from agentctx.times import format_time

_HIDDEN_ATTRIBUTES = ("file", "cues")
"""Attributes omitted from passages: `location` replaces the file record, and cues are not in the text."""


def embedding_state(*, embedded: bool, pending: bool) -> wire.EmbeddingState:
    """Return `off` if the entry is not embedded, else whether its vectors are pending or done."""
    if not embedded:
        return "off"
    return "pending" if pending else "done"


def save_result(saved: SaveOutcome, superseded_by: Sequence[str] = ()) -> wire.SaveResult:
    return wire.SaveResult(
        id=saved.id,
        version=saved.version,
        changed=saved.change is not Change.NONE,
        redacted=list(saved.redacted),
        embedding=embedding_state(embedded=saved.embedded, pending=saved.pending),
        flags=list(saved.flags),
        quarantined=saved.quarantined,
        superseded_by=list(superseded_by),
    )


def entry_view(
    entry: Entry, known: Provenance = NO_PROVENANCE, *, withdrawn_ms: int | None = None
) -> wire.EntryView:
    """Return the view of an entry. `withdrawn_ms`: how long withdrawn entries are kept; None: for ever."""
    return wire.EntryView(
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
        flags=list(known.flags),
        derived_from=list(known.derived_from),
        quarantined=known.quarantined,
        revocation=known.revocation,
        waiting=None if known.waiting is None else format_time(known.waiting),
        file_state=_file_state(known, withdrawn_ms) if "file" in entry.attributes else None,
        superseded=known.superseded.closed if known.superseded else None,
        superseded_by=list(known.superseded_by),
    )


def _file_state(known: Provenance, withdrawn_ms: int | None) -> wire.FileState | None:
    file = known.file_state
    if file is None:
        return None
    ends = file.state == "withdrawn" and known.revocation is None and withdrawn_ms is not None
    return wire.FileState(
        state=file.state,
        reason=file.reason,
        since=format_time(file.since),
        until=format_time(file.since + (withdrawn_ms or 0)) if ends else None,
    )


def passage(hit: ResolvedChunk, known: Provenance = NO_PROVENANCE) -> wire.Passage:
    entry = hit.entry
    return wire.Passage(
        namespace=entry.namespace,
        collection=entry.collection,
        id=entry.id,
        source_id=hit.source_id,
        version=entry.version,
        content=hit.content,
        distance=None if hit.distance is None else round(hit.distance, 6),
        relevance=round(hit.relevance, 6),
        start=hit.start,
        end=hit.end,
        session=entry.session or None,
        agent=entry.agent or None,
        origin=entry.origin,
        trust=entry.trust,
        created=format_time(entry.created),
        updated=format_time(entry.updated),
        attributes={
            name: value for name, value in entry.attributes.items() if name not in _HIDDEN_ATTRIBUTES
        },
        location=hit.location,
        headings=_headings(hit),
        flags=list(hit.flags),
        stale=hit.stale if hit.location else None,
        superseded=known.superseded.closed if known.superseded else None,
        superseded_by=list(known.superseded_by),
    )


def _headings(chunk: ResolvedChunk) -> list[str]:
    return headings_of(chunk.location.path, chunk.before, chunk.content) if chunk.location else []


def injection_summary(receipt: Receipt) -> wire.InjectionSummary:
    return wire.InjectionSummary(**_summary(receipt))


def injection_view(
    receipt: Receipt, entries: Mapping[str, Entry], known: Mapping[str, Provenance]
) -> wire.InjectionView:
    """Return the view of a receipt; `entries` has those of its entries that still exist, by id."""
    candidates = [
        injection_candidate(each, entries.get(each.entry), known.get(each.entry, NO_PROVENANCE))
        for each in receipt.candidates
    ]
    return wire.InjectionView(**_summary(receipt), candidates=candidates)


def injection_candidate(
    figures: CandidateFigures, entry: Entry | None = None, known: Provenance = NO_PROVENANCE
) -> wire.InjectionCandidate:
    return wire.InjectionCandidate(
        **figures._asdict(),
        collection=entry.collection if entry else None,
        source_id=(entry.key or entry.id) if entry else None,
        superseded_by=list(known.superseded_by),
    )


def explained(
    entry_id: str,
    explanation: Explanation,
    where: Ranks | None = None,
    *,
    candidates: Sequence[CandidateFigures] = (),
    fused_rank: int | None = None,
    words: WordMatch | None = None,
    gate: float | None = None,
) -> wire.ExplainReply:
    return wire.ExplainReply(
        entry=entry_id,
        verdict=explanation.verdict,
        message=explanation.message,
        word_rank=where.word if where else None,
        distance_rank=where.distance if where else None,
        fused_rank=fused_rank,
        words_matched=words.matched if words else None,
        words_wanted=words.total if words else None,
        gate=None if gate is None else round(gate, 6),
        degraded=where.degraded if where else None,
        candidates=[injection_candidate(each) for each in candidates],
    )


def _summary(receipt: Receipt) -> dict[str, Any]:
    same = (field.name for field in fields(wire.InjectionSummary) if hasattr(receipt, field.name))
    return {
        **{name: getattr(receipt, name) for name in same},
        "created": format_time(receipt.created),
        "namespaces": list(receipt.namespaces),
        "session": receipt.session or None,
        "conversation": receipt.conversation or None,
        "agent": receipt.agent or None,
        "fates": dict(receipt.fates),
        "injected": receipt.fates.get("injected", 0),
    }


def audit_page(rows: Sequence[AuditRow], *, limit: int) -> wire.AuditPage:
    """Return a page of rows; `next` is set if there may be more."""
    events = [audit_event(row) for row in rows]
    has_more = len(events) == limit and events[-1].seq > 1
    return wire.AuditPage(events=events, next=events[-1].seq if has_more else None)


def audit_event(row: AuditRow) -> wire.AuditEvent:
    """Return the view of a row; the raw text of a tampered row's detail is shown too."""
    try:
        detail = json.loads(row.detail)
    except (ValueError, RecursionError):
        detail = None
    return wire.AuditEvent(
        seq=row.seq,
        at=format_time(row.at),
        kind=row.kind,
        principal=row.principal,
        namespace=row.namespace,
        subject=row.subject,
        detail=detail if isinstance(detail, dict) else {"unreadable": row.detail[:200]},
        hash=row.hash.hex(),
    )


def audit_verdict(outcome: AuditOutcome) -> wire.AuditVerdict:
    return wire.AuditVerdict(
        sound=not outcome.faults,
        rows=outcome.rows,
        faults=outcome.faults,
        listed=[wire.AuditFault(seq=fault.seq, problem=fault.problem) for fault in outcome.listed],
    )
