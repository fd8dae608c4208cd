"""The handlers of saves and imports, whose replies over HTTP are not those of the services."""

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
from agentctx.service.base import Peer
from agentctx.service.operations import Method
from agentctx.telemetry import Telemetry

log = structlog.get_logger("agentctx.server")


def _one_or_many(body: object) -> str:
    many = isinstance(body, wire.SaveManyRequest) or (isinstance(body, dict) and "entries" in body)
    return "<many>" if many else "<one>"


IdempotencyKey = Annotated[
    str | None,
    Field(min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$"),
    Header(wire.IDEMPOTENCY_HEADER),
]


class SaveHandlers:
    """Each public method handles the operation of its name, which is one of the first two arguments."""

    def __init__(
        self, save: Method, import_entries: Method, limits: LimitSettings, telemetry: Telemetry
    ) -> None:
        self._save = save
        self._import = import_entries
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
            outcomes: list[wire.SaveResult | AgentctxError] = await self._save(
                entries, peer, idempotency_key=idempotency_key
            )
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

    async def import_entries(self, request: Request, body: wire.ImportRequest) -> wire.SaveManyReply:
        """Save exported entries under their ids and with their times; returns a result or an error for each.

        Entries that exist here in the same or a newer version are kept; forgotten ones are refused unless
        `include_forgotten`. Imported entries get the origin `import` and by default the trust `external`.
        """
        self._check_count(len(body.entries))
        return _many(await self._import(body, request_peer(request)))

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
