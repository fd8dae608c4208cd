"""Handlers whose HTTP shape differs from the contract: one or many bodies, filters in the query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import structlog
from pydantic import Discriminator, Field, Tag
from starlette.requests import Request
from starlette.responses import Response

from agentctx import wire
from agentctx.config.schema import LimitSettings
from agentctx.errors import AgentctxError, IdempotencyKeyReused, TooLarge
from agentctx.server.errors import error_reply
from agentctx.server.parameters import IN_BODY, Header
from agentctx.server.peer import request_peer
from agentctx.service.base import MAX_PAGE, PAGE, Examination, Limit, Listing, Peer, Service
from agentctx.storage.audit import AuditQuery
from agentctx.storage.entries import ExportSelection
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry
from agentctx.times import parse_time, wall_clock

log = structlog.get_logger("agentctx.server")

DEFAULT_EXPORTED = 100
DEFAULT_RECEIPTS = 20
DEFAULT_AUDIT_ROWS = 50
LONGEST_NAME = 200


def _one_or_many(body: object) -> str:
    many = isinstance(body, wire.SaveManyRequest) or (isinstance(body, dict) and "entries" in body)
    return "<many>" if many else "<one>"


IdempotencyKey = Annotated[
    str | None,
    Field(min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$"),
    Header(wire.IDEMPOTENCY_HEADER),
]
Only = Annotated[list[str] | None, Field(description="Only these checks or groups. Default: all.")]
Offline = Annotated[bool, Field(description="Ask no embedding provider outside the daemon.")]


class OperationHandlers:
    """Each public method handles the operation of its name."""

    def __init__(self, service: Service, limits: LimitSettings, telemetry: Telemetry = NO_TELEMETRY) -> None:
        self._service = service
        self._limits = limits
        self._telemetry = telemetry

    async def save(
        self,
        request: Request,
        response: Response,
        body: Annotated[
            Annotated[wire.SaveRequest, Tag("<one>")] | Annotated[wire.SaveManyRequest, Tag("<many>")],
            Discriminator(_one_or_many),
            IN_BODY,
        ],
        idempotency_key: IdempotencyKey = None,
    ) -> wire.SaveResult | wire.SaveManyReply:
        """Save one entry (201 if something changed, 200 if it already existed), or many: 200 with a result or
        an error for each.
        """
        peer, is_many = request_peer(request), isinstance(body, wire.SaveManyRequest)
        entries = body.entries if isinstance(body, wire.SaveManyRequest) else [body]
        self._check_count(len(entries))
        try:
            outcomes = await self._service.save(entries, peer, idempotency_key=idempotency_key)
        except AgentctxError as error:
            self._note_refused(entries, [error] * len(entries), peer)
            raise
        self._note_refused(entries, outcomes, peer)
        if is_many:
            return _many(outcomes)
        [outcome] = outcomes
        if isinstance(outcome, AgentctxError):
            raise outcome
        response.status_code = 201 if outcome.changed else 200
        return outcome

    def _note_refused(
        self, entries: Sequence[wire.SaveRequest], outcomes: Sequence[object], peer: Peer
    ) -> None:
        """Report refused saves of hooks, since a hook's user sees no error."""
        for entry, outcome in zip(entries, outcomes, strict=True):
            if isinstance(outcome, IdempotencyKeyReused):  # another hook has saved the turn
                continue
            if entry.origin == "capture" and isinstance(outcome, AgentctxError):
                self._telemetry.capture_refused()
                log.warning("capture_refused", uid=peer.uid, code=outcome.code, reason=outcome.message)

    async def list_entries(
        self,
        request: Request,
        *,
        namespace: str = wire.DEFAULT_NAMESPACE,
        collection: list[str] | None = None,
        session: str | None = None,
        agent: str | None = None,
        category: str | None = None,
        tag: list[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        key: str | None = None,
        key_prefix: str | None = None,
        withdrawn: bool = False,
        marked: bool = False,
        content: bool = True,
        limit: Limit = PAGE,
        cursor: str | None = None,
    ) -> wire.EntryPage:
        """List live entries, newest first, in pages; `content=false` omits their texts.

        `since` and `until` bound the time of the last change, as RFC 3339 times or ages like `7d`. Entries
        whose file is gone or says something else are left out unless `withdrawn`; `marked` lists only those,
        and the ones whose file could not be seen.
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
            withdrawn=withdrawn,
            marked=marked,
            with_content=content,
            limit=limit,
            cursor=cursor,
        )
        return await self._service.list_entries(wanted, request_peer(request))

    async def namespaces(self, request: Request) -> wire.NamespaceList:
        """Count the entries of each namespace that the caller may read, the largest first, at most 1,000."""
        return await self._service.namespaces(request_peer(request))

    async def export(
        self,
        request: Request,
        namespace: list[str] | None = None,
        collection: list[str] | None = None,
        since: str | None = None,
        history: bool = False,
        vectors: bool = False,
        limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_EXPORTED,
        cursor: str | None = None,
    ) -> wire.ExportReply:
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

    async def import_entries(self, request: Request, body: wire.ImportRequest) -> wire.SaveManyReply:
        """Save exported entries under their ids and with their times; returns a result or an error for each.

        Entries that exist here in the same or a newer version are kept; forgotten ones are refused unless
        `include_forgotten`. Imported entries get the origin `import` and by default the trust `external`.
        """
        self._check_count(len(body.entries))
        return _many(await self._service.import_entries(body, request_peer(request)))

    async def injections(
        self, request: Request, limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_RECEIPTS
    ) -> wire.InjectionList:
        """List the receipts of the last injections, newest first."""
        return await self._service.injections(limit, request_peer(request))

    async def doctor(self, request: Request, only: Only = None, offline: Offline = False) -> wire.DoctorReply:
        """Examine the daemon's database, queue and embedding provider without changing anything."""
        return await self._service.doctor(_examination(only, offline), request_peer(request))

    async def doctor_fix(
        self, request: Request, only: Only = None, offline: Offline = False
    ) -> wire.DoctorReply:
        """Examine and repair what can be repaired; report the repairs and the state after them."""
        return await self._service.doctor_fix(_examination(only, offline), request_peer(request))

    async def audit(
        self,
        request: Request,
        limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_AUDIT_ROWS,
        before: Annotated[int | None, Field(ge=1, le=2**53)] = None,
        kind: Annotated[str | None, Field(max_length=LONGEST_NAME)] = None,
        subject: Annotated[str | None, Field(max_length=LONGEST_NAME)] = None,
    ) -> wire.AuditPage:
        """List the rows of the audit trail, newest first: what was done, by whom and to what."""
        wanted = AuditQuery(limit=limit, before=before, kind=kind, subject=subject)
        return await self._service.audit(wanted, request_peer(request))

    def _check_count(self, count: int) -> None:
        maximum = self._limits.max_entries_per_request
        if count > maximum:
            raise TooLarge(
                f"Too many entries in one request: {count}.", hint=f"Send at most {maximum} at a time."
            )


def _many(outcomes: Sequence[wire.SaveResult | AgentctxError]) -> wire.SaveManyReply:
    return wire.SaveManyReply(
        results=[error_reply(each) if isinstance(each, AgentctxError) else each for each in outcomes]
    )


def _examination(only: list[str] | None, offline: bool) -> Examination:
    return Examination(only=tuple(only or ()), offline=offline)
