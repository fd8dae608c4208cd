"""Routes of entries: save, list, read, edit, forget, versions, and the outcome of a learning."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, FastAPI, Header, Query, Request, Response
from pydantic import Discriminator, Tag

from agentctx.config.schema import LimitSettings
from agentctx.errors import AgentctxError, TooLarge
from agentctx.server.errors import documented, error_reply
from agentctx.server.peer import request_peer
from agentctx.service.base import Listing, Service
from agentctx.wire import (
    API_PREFIX,
    DEFAULT_NAMESPACE,
    IDEMPOTENCY_HEADER,
    EditRequest,
    EntryPage,
    EntryView,
    ErrorReply,
    ForgetReply,
    OutcomeRequest,
    SaveManyReply,
    SaveManyRequest,
    SaveRequest,
    SaveResult,
    VersionPage,
)

DEFAULT_PAGE = 50
MAX_PAGE = 1_000


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
_CREATED = {"model": SaveResult, "description": "Saved: one entry, new or changed."}
Version = Annotated[int | None, Query(ge=1, le=2**63 - 1)]


class EntryRoutes:
    """Handlers over a `Service`; each reads the peer and passes the request on."""

    def __init__(self, service: Service, limits: LimitSettings) -> None:
        self._service = service
        self._limits = limits

    def add_to(self, app: FastAPI) -> None:
        entries, entry = f"{API_PREFIX}/entries", f"{API_PREFIX}/entries/{{entry_id}}"
        saved = {201: _CREATED, **documented(409, 507)}
        app.add_api_route(entries, self.save, methods=["POST"], responses=saved)
        app.add_api_route(entries, self.list_entries, methods=["GET"], responses=documented())
        app.add_api_route(entry, self.get, methods=["GET"], responses=documented(404))
        app.add_api_route(entry, self.edit, methods=["PATCH"], responses=documented(404, 409, 507))
        app.add_api_route(entry, self.forget, methods=["DELETE"], responses=documented(404, 409, 507))
        app.add_api_route(f"{entry}/versions", self.versions, methods=["GET"], responses=documented(404))
        app.add_api_route(
            f"{API_PREFIX}/learnings/{{entry_id}}/outcome",
            self.outcome,
            methods=["POST"],
            responses=documented(404, 409, 507),
        )

    async def save(
        self,
        request: Request,
        response: Response,
        body: Annotated[SaveBody, Body()],
        idempotency_key: IdempotencyKey = None,
    ) -> SaveResult | SaveManyReply:
        """Save one entry (201 when something changed, 200 when it was there already), or many: 200 with a
        result or an error for each.
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
        most = self._limits.max_entries_per_request
        if count > most:
            raise TooLarge(
                f"{count} entries are more than one request may hold.", hint=f"Send at most {most} at a time."
            )

    async def list_entries(
        self,
        request: Request,
        namespace: str = DEFAULT_NAMESPACE,
        collection: Annotated[list[str] | None, Query()] = None,
        session: str | None = None,
        key_prefix: str | None = None,
        content: bool = True,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE,
        cursor: str | None = None,
    ) -> EntryPage:
        """List live entries, newest first, in pages; `content=false` leaves their texts out."""
        wanted = Listing(
            namespace=namespace,
            collections=collection,
            session=session,
            key_prefix=key_prefix,
            with_content=content,
            limit=limit,
            cursor=cursor,
        )
        return await self._service.list_entries(wanted, request_peer(request))

    async def get(self, request: Request, entry_id: str, version: Version = None) -> EntryView:
        """Read an entry: the live version, or an older one."""
        return await self._service.get(entry_id, request_peer(request), version=version)

    async def edit(self, request: Request, entry_id: str, body: Annotated[EditRequest, Body()]) -> SaveResult:
        """Change fields of an entry; what is absent stays."""
        return await self._service.edit(entry_id, body, request_peer(request))

    async def forget(
        self, request: Request, entry_id: str, if_version: Version = None, with_copies: bool = False
    ) -> ForgetReply:
        """Erase an entry with all its versions; with copies, captured replies that repeat it as well."""
        return await self._service.forget(
            entry_id, request_peer(request), if_version=if_version, with_copies=with_copies
        )

    async def versions(
        self,
        request: Request,
        entry_id: str,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE,
        cursor: str | None = None,
    ) -> VersionPage:
        """List the versions of an entry, newest first, in pages."""
        return await self._service.versions(entry_id, request_peer(request), limit=limit, cursor=cursor)

    async def outcome(
        self, request: Request, entry_id: str, body: Annotated[OutcomeRequest, Body()]
    ) -> SaveResult:
        """Tell whether applying a learning worked."""
        return await self._service.outcome(entry_id, body, request_peer(request))


def _result_or_reply(outcome: SaveResult | AgentctxError) -> SaveResult | ErrorReply:
    return error_reply(outcome) if isinstance(outcome, AgentctxError) else outcome
