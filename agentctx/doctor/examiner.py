"""The daemon's operations that examine and repair what it has open."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeAlias

from pydantic import Field

from agentctx.doctor.contexts import RunningDaemon
from agentctx.errors import NotFound
from agentctx.service.access.policy import DAEMON
from agentctx.service.base import Peer
from agentctx.service.operations import Operation
from agentctx.times import format_time
from agentctx.wire import DoctorReply

Only = Annotated[list[str] | None, Field(description="Only these checks or groups. Default: all.")]
Offline = Annotated[bool, Field(description="Ask no embedding provider outside the daemon.")]
Latest = Annotated[bool, Field(description="Examine nothing; return the last result since the start.")]
_Request: TypeAlias = tuple[tuple[str, ...], bool]
"""`only` and `offline` of an examination."""


@dataclass
class Examiner(RunningDaemon):
    """Examines the daemon's own database and model.

    One examination runs at a time. Callers that arrive while it runs wait for the next one and share it.
    """

    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _begun: int = field(default=0, init=False)
    _latest: dict[_Request, tuple[int, DoctorReply]] = field(default_factory=dict, init=False)

    @Operation("GET", "/doctor", DAEMON, errors=(404,))
    async def doctor(
        self,
        peer: Peer,  # noqa: ARG002
        *,
        only: Only = None,
        offline: Offline = False,
        latest: Latest = False,
    ) -> DoctorReply:
        """Examine the daemon's database, queue and embedding provider without changing anything."""
        if latest:
            for _, last in self._latest.values():
                return last
            raise NotFound("The doctor has not examined the daemon since its start.")
        request, asked_after = (tuple(only or ()), offline), self._begun
        async with self._one_at_a_time:
            number, reply = self._latest.get(request, (0, None))
            if reply is not None and number > asked_after:
                return reply
            return await self._examine(request, fix=False)

    @Operation("POST", "/doctor/fix", DAEMON, errors=(507,))
    async def doctor_fix(self, peer: Peer, *, only: Only = None, offline: Offline = False) -> DoctorReply:  # noqa: ARG002
        """Examine and repair what can be repaired; report the repairs and the state after them."""
        async with self._one_at_a_time:
            return await self._examine((tuple(only or ()), offline), fix=True)

    async def _examine(self, request: _Request, *, fix: bool) -> DoctorReply:
        # Imported late, because all the checks would slow down the daemon's start.
        from agentctx.doctor.examination import examine_own

        self._begun += 1
        number = self._begun
        only, offline = request
        reply = await examine_own(self, only, offline=offline, fix=fix)
        reply = replace(reply, made=format_time(self.storage.clock()))
        self._latest = {request: (number, reply)}
        return reply
