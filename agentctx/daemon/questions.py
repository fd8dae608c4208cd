"""Questions: from wire requests to RAG, and back."""

from __future__ import annotations

from agentctx.daemon.parts import PartsHolder
from agentctx.errors import InvalidInput, TooLarge
from agentctx.rag.service import Question
from agentctx.server.service import Peer
from agentctx.server.views import passage
from agentctx.storage.records import Filter
from agentctx.times import parse_time
from agentctx.wire import ContextReply, ContextRequest, SearchReply, SearchRequest


class Questions(PartsHolder):
    """The part of `server.service.Service` that answers."""

    async def search(self, request: SearchRequest, peer: Peer) -> SearchReply:  # noqa: ARG002
        answer = await self._parts.rag.retrieve(self._question(request))
        return SearchReply(
            results=[passage(hit) for hit in answer.hits], degraded=answer.degraded, rerank=answer.rerank
        )

    async def context(self, request: ContextRequest, peer: Peer) -> ContextReply:  # noqa: ARG002
        budget = request.budget_tokens
        if budget is not None and budget <= 0:
            raise InvalidInput("budget_tokens must be positive")
        if not self._parts.settings.embedding.rag.enabled:
            return ContextReply(
                block="", tokens=0, results=[], degraded="off: embedding.rag.enabled is false"
            )
        context = await self._parts.rag.context(
            self._question(request),
            budget_tokens=budget or self._parts.settings.embedding.rag.budget_tokens,
        )
        return ContextReply(
            block=context.block,
            tokens=context.tokens,
            results=[passage(hit) for hit in context.hits],
            degraded=context.degraded,
            rerank=context.rerank,
        )

    def _question(self, request: SearchRequest) -> Question:
        limits, rag = self._parts.settings.limits, self._parts.settings.embedding.rag
        if len(request.query) > limits.max_query_chars:
            most = limits.max_query_chars
            raise TooLarge(f"the question has {len(request.query)} characters, at most {most} are taken")
        if not request.query.strip():
            raise InvalidInput("the question is empty", hint="Ask in a few words.")
        limit = rag.max_results if request.limit is None else request.limit
        if not 1 <= limit <= limits.max_results:
            raise InvalidInput(f"limit is {limit}, it may be 1 to {limits.max_results}")
        distance = rag.max_distance if request.max_distance is None else request.max_distance
        if not 0 <= distance <= 2:
            raise InvalidInput("max_distance is a cosine distance: 0 (keep all) to 2")
        return Question(
            text=request.query,
            wanted=self._filter(request),
            limit=limit,
            order=request.order,
            max_distance=distance,
        )

    def _filter(self, request: SearchRequest) -> Filter:
        stores, now = self._parts.stores, self._parts.clock()
        collections = tuple(request.collections or self._parts.settings.embedding.rag.collections)
        for collection in collections:
            stores.check_collection(collection)
        return Filter(
            namespace=request.namespace,
            collections=None if set(collections) >= set(stores.collections) else collections,
            session=request.session,
            agent=request.agent,
            category=request.category,
            tags=tuple(request.tags or ()),
            since=None if request.since is None else parse_time(request.since, now=now),
            until=None if request.until is None else parse_time(request.until, now=now),
        )
