"""Questions: from wire requests to RAG, and back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentctx import wire
from agentctx.errors import InvalidInput, TooLarge
from agentctx.names import normalised
from agentctx.service import audit_notes as notes
from agentctx.service import guard_rules as rules
from agentctx.service.access.policy import READ
from agentctx.service.base import CurrentSettings, Peer
from agentctx.service.operations import Operation
from agentctx.service.rag.action_gate import AskedAction
from agentctx.service.rag.question import TRUST_OF_SYSTEM, Answer, Question
from agentctx.service.rag.service import RAGService
from agentctx.service.receipts import ReceiptLog, make_receipt, question_hash
from agentctx.service.stores.base import EntryStore
from agentctx.service.stores.fields import check_namespace
from agentctx.service.stores.redaction import redact_name
from agentctx.service.views import passage
from agentctx.storage.base import Storage
from agentctx.storage.injections import Receipt
from agentctx.storage.search import Filter
from agentctx.storage.trust import NO_PROVENANCE
from agentctx.text.redaction.redactor import Redactor
from agentctx.times import parse_time
from agentctx.wire.protocol import DEFAULT_NAMESPACE, MAX_NAMESPACES

MEANING_SHARE = 0.75
"""Share of an injection's deadline for vector search; the rest is left for keyword search and the reply."""


@dataclass(frozen=True)
class Questions:
    """Answers questions: passages for a search, or the block for an LLM call, which leaves a receipt."""

    storage: Storage
    stores: EntryStore
    rag: RAGService
    receipts: ReceiptLog
    redactor: Redactor
    settings: CurrentSettings

    @Operation(
        "POST", "/search", READ, rules.in_searched, audit=notes.searched, errors=(504,), is_frequent=True
    )
    async def search(self, request: wire.SearchRequest, peer: Peer) -> wire.SearchReply:  # noqa: ARG002
        """Find the most relevant passages."""
        answer = await self.rag.retrieve(self._question(request))
        return wire.SearchReply(
            results=await self._passages(request, answer), degraded=answer.degraded, rerank=answer.rerank
        )

    @Operation(
        "POST",
        "/context",
        READ,
        rules.in_searched,
        audit=notes.given_context,
        errors=(504,),
        is_frequent=True,
    )
    async def context(self, request: wire.ContextRequest, peer: Peer) -> wire.ContextReply:
        """Build the block for an LLM call."""
        if not request.conversation or request.position is None:
            return await self._answered(request, peer)
        conversation = self._name(request.conversation) or ""
        async with self.receipts.serialize(conversation, peer.uid):
            return await self._answered(request, peer)

    async def _answered(self, request: wire.ContextRequest, peer: Peer) -> wire.ContextReply:
        started = time.perf_counter()
        question, budget_tokens = await self.question_of(request, peer), self.budget(request)
        if self.settings.value.embedding.rag.enabled:
            context = await self.rag.context(question, budget_tokens=budget_tokens)
        else:
            context = Answer(degraded="off: embedding.rag.enabled is false")
        injection_id = None
        if request.position is not None:
            took_s = time.perf_counter() - started
            injection_id = self.receipts.new_id()
            self.receipts.add(await self._receipt(injection_id, request, context, peer, took_s))
        return wire.ContextReply(
            block=context.block,
            tokens=context.tokens,
            results=await self._passages(request, context),
            degraded=context.degraded,
            rerank=context.rerank,
            injection_id=injection_id,
            left_out=context.left_out,
        )

    async def _passages(self, request: wire.SearchRequest, answer: Answer) -> list[wire.Passage]:
        asked = [hit.entry.id for hit in answer.hits] if request.include_superseded else []
        known = await self.storage.trust.provenance(asked) if asked else {}
        return [passage(hit, known.get(hit.entry.id, NO_PROVENANCE)) for hit in answer.hits]

    async def question_of(self, request: wire.ContextRequest, peer: Peer) -> Question:
        """Build the question of a context request, with what its conversation has. Raises `InvalidInput`."""
        question = self._context_question(request, peer)
        if not request.conversation:
            return question
        conversation = self._name(request.conversation) or ""
        if request.decided:
            wanted = replace(question.filter, session=conversation, trust=TRUST_OF_SYSTEM)
            began = await self.receipts.began(conversation, peer.uid)
            question = replace(question, filter=wanted, decided=(conversation, began))
        if request.restarted:
            return question
        chunks, restarted = await self.receipts.injected_in(conversation, peer.uid)
        present = [*question.present, *(await self._texts(chunks, question) if chunks else ())]
        return replace(question, present=present, own=(conversation, restarted))

    async def _texts(self, chunks: Sequence[int], question: Question) -> list[str]:
        """Return the texts of chunks that are still unchanged."""
        search, namespaces = self.storage.search, [each.namespace for each in question.filters]
        answers = [await search.resolve(chunks, Filter(namespace=namespace)) for namespace in namespaces]
        return [each.content for resolved in answers for each in resolved.values()]

    async def _receipt(
        self, injection_id: str, request: wire.ContextRequest, context: Answer, peer: Peer, took_s: float
    ) -> Receipt:
        assert request.position is not None  # noqa: S101 - checked by the caller
        stores_prompts = self.settings.value.injection.store_prompts
        return make_receipt(
            context,
            id=injection_id,
            created=self.storage.clock(),
            namespaces=request.asked,
            session=self._name(request.session) or "",
            conversation=self._name(request.conversation) or "",
            agent=self._name(request.agent) or "",
            principal=peer.uid,
            restarted=bool(request.restarted),
            position=request.position,
            question_hash=question_hash(request.query, await self.rag.secret()),
            question=self.redactor(request.query).text if stores_prompts else None,
            budget_tokens=self.budget(request),
            took_s=took_s,
        )

    def budget(self, request: wire.ContextRequest) -> int:
        """Return the token budget of a block. Raises `InvalidInput`."""
        budget = request.budget_tokens
        if budget is not None and budget <= 0:
            raise InvalidInput(f"Invalid budget_tokens {budget}.", hint="Use a positive number.")
        return budget or self.settings.value.embedding.rag.budget_tokens

    def _question(self, request: wire.SearchRequest) -> Question:
        limits, rag = self.settings.value.limits, self.settings.value.embedding.rag
        if len(request.query) > limits.max_query_chars:
            maximum = limits.max_query_chars
            raise TooLarge(f"The question has {len(request.query)} characters; the limit is {maximum}.")
        _check_namespaces(request)
        if not request.query.strip() and not (isinstance(request, wire.ContextRequest) and request.all):
            raise InvalidInput("The question is empty.", hint="Ask in a few words.")
        limit = rag.max_results if request.limit is None else request.limit
        if not 1 <= limit <= limits.max_results:
            raise InvalidInput(f"Invalid limit {limit}.", hint=f"Use 1 to {limits.max_results}.")
        distance = rag.max_distance if request.max_distance is None else request.max_distance
        if not 0 <= distance <= 2:
            raise InvalidInput(
                f"Invalid max_distance {distance}.", hint="Use a cosine distance from 0 (keep all) to 2."
            )
        return Question(
            # The provider sees the question. Redacted parts could not match anyway: entries are redacted too.
            text=self.redactor(request.query).text,
            filter=self._filter(request),
            also=request.asked[1:],
            limit=limit,
            order=request.order,
            max_distance=distance,
        )

    def _context_question(self, request: wire.ContextRequest, peer: Peer) -> Question:
        maximum = self.settings.value.limits.max_present_chars
        present = request.present or []
        if (size := sum(map(len, present))) > maximum:
            raise TooLarge(
                f"The texts in `present` have {size} characters; the limit is {maximum}.",
                hint="Send only the latest texts of the conversation.",
            )
        question = replace(
            self._question(request),
            present=present,
            position=request.position,
            everything=request.all is True,
            asker=peer.uid,
        )
        if request.action or request.folder or request.error:
            action = self._action(request, question.text)
            question = replace(question, action=action, text=action.query)
        if request.position is None:
            return question
        deadline_s = MEANING_SHARE * self.settings.value.injection.deadline_ms / 1_000
        return replace(question, deadline_s=deadline_s)

    def _action(self, request: wire.ContextRequest, text: str) -> AskedAction:
        """Return the action, named by the redacted text."""
        if request.action is None:
            raise InvalidInput("`folder` and `error` belong to an action.", hint="Send `action`, too.")
        error, maximum = request.error or "", self.settings.value.limits.max_query_chars
        if len(error) > maximum:
            raise TooLarge(
                f"The error has {len(error)} characters; the limit is {maximum}.", hint="Send its end."
            )
        folder = request.folder or ""
        return AskedAction.of(request.action, text, folder=folder, error=self.redactor(error).text)

    def _name(self, name: str | None) -> str | None:
        """Redact the name of a session or an agent as a save does."""
        return redact_name(name, self.redactor)[0]

    def _filter(self, request: wire.SearchRequest) -> Filter:
        stores, now = self.stores, self.storage.clock()
        collections = tuple(request.collections or self.settings.value.embedding.rag.collections)
        for collection in collections:
            stores.check_collection(collection)
        return Filter(
            namespace=request.asked[0],
            collections=None if set(collections) >= set(stores.collections) else collections,
            session=self._name(request.session),
            agent=self._name(request.agent),
            category=request.category,
            tags=tuple(map(normalised, request.tags or ())),
            since=None if request.since is None else parse_time(request.since, now=now),
            until=None if request.until is None else parse_time(request.until, now=now),
            with_superseded=bool(request.include_superseded),
        )


def _check_namespaces(request: wire.SearchRequest) -> None:
    for namespace in request.asked:
        check_namespace(namespace)
    if request.namespaces is None:
        return
    if not 1 <= len(request.asked) <= MAX_NAMESPACES or not request.namespaces:
        raise InvalidInput(
            f"Invalid number of namespaces: {len(request.namespaces)}.", hint=f"Name 1 to {MAX_NAMESPACES}."
        )
    if request.namespace not in {DEFAULT_NAMESPACE, *request.namespaces}:
        raise InvalidInput("The question has both `namespace` and `namespaces`.", hint="Send one of them.")
