"""Handlers for saving one or many entries, and for listing entries."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Header, Query, Request, Response
from pydantic import Discriminator, Tag

from agentctx.config.schema import LimitSettings
from agentctx.errors import AgentctxError, TooLarge
from agentctx.server.errors import error_reply
from agentctx.server.peer import request_peer
from agentctx.service.base import PAGE, Limit, Listing, Service
from agentctx.wire import (
    DEFAULT_NAMESPACE,
    IDEMPOTENCY_HEADER,
    EntryPage,
    ErrorReply,
    SaveManyReply,
    SaveManyRequest,
    SaveRequest,
    SaveResult,
)


def _one_or_many(body: object) -> str:
    many = isinstance(body, SaveManyRequest) or (isinstance(body, dict) and "entries" in body)
    return "<many>" if many else "<one>"


SaveBody = Annotated[
    Annotated[SaveRequest, Tag("<one>")] | Annotated[SaveManyRequest, Tag("<many>")],
    Discriminator(_one_or_many),
]
IdempotencyKey = Annotated[
    str | None,
    Header(alias=IDEMPOTENCY_HEADER, min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$"),
]
SAVE_RESPONSES: dict[int | str, dict[str, Any]] = {
    201: {"model": SaveResult, "description": "Saved: one entry, new or changed."}
}


class EntryHandlers:
    """Handlers whose HTTP shape differs from the contract: one or many entries, filters in the query."""

    def __init__(self, service: Service, limits: LimitSettings) -> None:
        self._service = service
        self._limits = limits

    async def save(
        self,
        request: Request,
        response: Response,
        body: Annotated[SaveBody, Body()],
        idempotency_key: IdempotencyKey = None,
    ) -> SaveResult | SaveManyReply:
        """Save one entry (201 if something changed, 200 if it already existed), or many: 200 with a result or
        an error for each.
        """
        peer = request_peer(request)
        if isinstance(body, SaveManyRequest):
            self._check_count(len(body.entries))
            outcomes = await self._service.save(body.entries, peer, idempotency_key=idempotency_key)
            return SaveManyReply(results=[_result_or_reply(outcome) for outcome in outcomes])
        [outcome] = await self._service.save([body], peer, idempotency_key=idempotency_key)
        if isinstance(outcome, AgentctxError):
            raise outcome
        response.status_code = 201 if outcome.changed else 200
        return outcome

    def _check_count(self, count: int) -> None:
        maximum = self._limits.max_entries_per_request
        if count > maximum:
            raise TooLarge(
                f"Too many entries in one request: {count}.", hint=f"Send at most {maximum} at a time."
            )

    async def list_entries(
        self,
        request: Request,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        collection: Annotated[list[str] | None, Query()] = None,
        session: str | None = None,
        agent: str | None = None,
        category: str | None = None,
        tag: Annotated[list[str] | None, Query()] = None,
        since: str | None = None,
        until: str | None = None,
        key: str | None = None,
        key_prefix: str | None = None,
        content: bool = True,
        limit: Limit = PAGE,
        cursor: str | None = None,
    ) -> EntryPage:
        """List live entries, newest first, in pages; `content=false` omits their texts.

        `since` and `until` bound the time of the last change, as RFC 3339 times or ages like `7d`.
        """
        wanted = Listing(
            namespace=namespace,
            collections=collection,
            session=session,
            agent=agent,
            category=category,
            tags=tuple(tag or ()),
            since=since,
            until=until,
            key=key,
            key_prefix=key_prefix,
            with_content=content,
            limit=limit,
            cursor=cursor,
        )
        return await self._service.list_entries(wanted, request_peer(request))


def _result_or_reply(outcome: SaveResult | AgentctxError) -> SaveResult | ErrorReply:
    return error_reply(outcome) if isinstance(outcome, AgentctxError) else outcome
