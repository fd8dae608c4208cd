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
    """Handlers whose HTTP shape differs from the contract: selection in the query, many results."""

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
        """Export live entries of all or some namespaces with their chunks, oldest change first, in pages.

        `history` adds older versions, `vectors` the vectors of the active space, `since` omits entries not
        changed since then. A page may be shorter than `limit`; only a null `next` marks the end.
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
        """Save exported entries under their ids and with their times; returns a result or an error for each.

        Entries that exist here in the same or a newer version are kept; forgotten ones are refused unless
        `include_forgotten`. Imported entries get the origin `import` and by default the trust `external`.
        """
        maximum = self._limits.max_entries_per_request
        if len(body.entries) > maximum:
            raise TooLarge(
                f"Too many entries in one request: {len(body.entries)}.",
                hint=f"Send at most {maximum} at a time.",
            )
        outcomes = await self._service.import_entries(body, request_peer(request))
        return SaveManyReply(
            results=[error_reply(each) if isinstance(each, AgentctxError) else each for each in outcomes]
        )
