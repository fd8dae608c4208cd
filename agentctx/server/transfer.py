"""Routes of exports and imports."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Query, Request

from agentctx.config.schema import LimitSettings
from agentctx.errors import AgentctxError, TooLarge
from agentctx.server.errors import error_reply
from agentctx.server.peer import request_peer
from agentctx.service.base import Service
from agentctx.storage.transfer import ExportSelection
from agentctx.times import parse_time, wall_clock
from agentctx.wire import ExportReply, ImportRequest, SaveManyReply

DEFAULT_PAGE = 100
MAX_PAGE = 1_000


class TransferHandlers:
    """The selection of an export is in the query; many imports have a result each."""

    def __init__(self, service: Service, limits: LimitSettings) -> None:
        self._service = service
        self._limits = limits

    async def export(
        self,
        request: Request,
        namespace: Annotated[list[str] | None, Query()] = None,
        collection: Annotated[list[str] | None, Query()] = None,
        since: str | None = None,
        history: bool = False,
        vectors: bool = False,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE,
        cursor: str | None = None,
    ) -> ExportReply:
        """Read live entries of all or some namespaces with their chunks, oldest change first, in pages.

        `history` adds their older versions, `vectors` the vectors of the active space, `since` leaves out
        what was not changed since. A page may be shorter than `limit`; only a null `next` is the end.
        """
        selection = ExportSelection(
            namespaces=tuple(namespace or ()),
            collections=tuple(collection or ()),
            since=None if since is None else parse_time(since, now=wall_clock()),
            with_history=history,
            with_vectors=vectors,
        )
        return await self._service.export(selection, request_peer(request), cursor=cursor, limit=limit)

    async def import_entries(self, request: Request, body: Annotated[ImportRequest, Body()]) -> SaveManyReply:
        """Save exported entries under their ids and with their times, a result or an error for each.

        What is there already, the same or newer, stays, and what was forgotten stays so unless
        `include_forgotten`. All that is imported is of origin `import` and of trust `external`.
        """
        most = self._limits.max_entries_per_request
        if len(body.entries) > most:
            raise TooLarge(
                f"Too many entries in one request: {len(body.entries)}.",
                hint=f"Send at most {most} at a time.",
            )
        outcomes = await self._service.import_entries(body, request_peer(request))
        return SaveManyReply(
            results=[error_reply(each) if isinstance(each, AgentctxError) else each for each in outcomes]
        )
