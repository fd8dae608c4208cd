"""Receipts of injections, and explanations of why an entry was or was not injected."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentctx import wire
from agentctx.service import audit_notes as notes
from agentctx.service import guard_rules as rules
from agentctx.service.access.policy import MEMBER, READ
from agentctx.service.base import CurrentSettings, Limit, Peer
from agentctx.service.guard_rules import no_receipt
from agentctx.service.operations import Operation
from agentctx.service.questions import Questions
from agentctx.service.rag.explain import (
    Explanation,
    best_of,
    explain_fate,
    explain_not_found,
    filtered_out,
    left_out,
    not_asked,
)
from agentctx.service.rag.question import Question, allowed
from agentctx.service.rag.ranking import searched_texts
from agentctx.service.rag.service import RAGService
from agentctx.service.rag.word_match import QuestionWords
from agentctx.service.receipts import ReceiptLog, figures
from agentctx.service.views import explained, injection_summary, injection_view
from agentctx.storage.base import Storage
from agentctx.storage.injections import Visible, everything
from agentctx.storage.records import Entry
from agentctx.storage.trust import NO_PROVENANCE

DEFAULT_RECEIPTS = 20


@dataclass(frozen=True)
class Injections:
    """Shows what went into LLM calls, and why."""

    storage: Storage
    rag: RAGService
    receipts: ReceiptLog
    questions: Questions
    settings: CurrentSettings

    # Members see their own receipts; admins of the namespace see all.
    @Operation("GET", "/injections", MEMBER, rules.own_receipts, audit=notes.listed_receipts)
    async def injections(
        self,
        peer: Peer,  # noqa: ARG002
        *,
        limit: Limit = DEFAULT_RECEIPTS,
        entry: str = "",
        visible: Visible = everything,
    ) -> wire.InjectionList:
        """List the receipts of the last injections, newest first; of an `entry`, those that had found it."""
        receipts = await self.receipts.last(limit, visible, entry)
        return wire.InjectionList(injections=[injection_summary(receipt) for receipt in receipts])

    @Operation("POST", "/injections/explain", READ, rules.on_explained, audit=notes.explained, errors=(504,))
    async def explain(self, request: wire.ExplainRequest, peer: Peer) -> wire.ExplainReply:
        """Explain why an entry would or would not be in the context for a question now."""
        request = replace(request, position=request.position or "tail")
        question = await self.questions.question_of(request, peer)
        entry = await self.storage.entries.get(request.entry)
        if entry is None:
            return explained(request.entry, await self._gone(request.entry))
        known = (await self.storage.trust.provenance([entry.id])).get(entry.id, NO_PROVENANCE)
        if verdict := left_out(entry.id, known, question.filter):
            return explained(entry.id, verdict)
        if verdict := filtered_out(entry, allowed(question).filter, question.also):
            return explained(entry.id, verdict)
        if verdict := not_asked(question, is_on=self.settings.value.embedding.rag.enabled):
            return explained(entry.id, verdict)
        return await self._explained(entry, question, self.questions.budget(request))

    @Operation(
        "GET",
        "/injections/{injection_id:receipt_id}",
        READ,
        rules.on_receipt,
        audit=notes.read_receipt,
        errors=(404,),
    )
    async def injection(self, injection_id: str, peer: Peer) -> wire.InjectionView:  # noqa: ARG002
        """Show one receipt: the passages found for an LLM call, and why each was injected or omitted."""
        receipt = await self.receipts.find(injection_id)
        if receipt is None:
            raise no_receipt(injection_id)
        ids = {figures.entry for figures in receipt.candidates}
        entries = {entry_id: await self.storage.entries.get(entry_id) for entry_id in ids}
        known = await self.storage.trust.provenance(list(ids))
        return injection_view(receipt, {entry.id: entry for entry in entries.values() if entry}, known)

    async def _gone(self, entry_id: str) -> Explanation:
        if await self.storage.injections.expired(entry_id):
            return Explanation("expired", "it has expired")
        return Explanation("not_found", "no entry has this id: it was never saved here, or it was forgotten")

    async def _explained(self, entry: Entry, question: Question, budget_tokens: int) -> wire.ExplainReply:
        context = await self.rag.context(question, budget_tokens=budget_tokens)
        home = replace(question, filter=replace(question.filter, namespace=entry.namespace), also=())
        where = await self.rag.ranks_of(home, entry.id)
        mine = [each for each in context.considered if each.candidate.entry == entry.id]
        best = best_of(mine)
        if best is None:
            return explained(
                entry.id, explain_not_found(entry, where, context.degraded, question.also), where
            )
        resolved = await self.storage.search.resolve([best.candidate.chunk], allowed(home).filter)
        texts = searched_texts(resolved[best.candidate.chunk]) if resolved else []
        words = QuestionWords(question.text).match(texts)
        share = self.settings.value.embedding.rag.max_per_entry
        rank = next(at for at, each in enumerate(context.considered, start=1) if each is best)
        return explained(
            entry.id,
            explain_fate(best, fused_rank=rank, limit=question.limit, gate=context.gate, share=share),
            where,
            candidates=[figures(each) for each in mine],
            fused_rank=rank,
            words=words,
            gate=context.gate.best if context.gate else None,
        )
