"""The daemon's operations that examine and repair what it has open."""

from __future__ import annotations

import asyncio

from agentctx import wire
from agentctx.service.base import Examination, Peer
from agentctx.service.parts import Parts, PartsHolder


class Examiner(PartsHolder):
    """The part of the service that examines the daemon's own database and model.

    One examination runs at a time. Callers that arrive while it runs wait for the next one and share it.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._turn = asyncio.Lock()
        self._begun = 0
        self._latest: dict[Examination, tuple[int, wire.DoctorReply]] = {}

    async def doctor(self, wanted: Examination, peer: Peer) -> wire.DoctorReply:  # noqa: ARG002
        asked_after = self._begun
        async with self._turn:
            number, reply = self._latest.get(wanted, (0, None))
            if reply is not None and number > asked_after:
                return reply
            return await self._examine(wanted, fix=False)

    async def doctor_fix(self, wanted: Examination, peer: Peer) -> wire.DoctorReply:  # noqa: ARG002
        async with self._turn:
            return await self._examine(wanted, fix=True)

    async def _examine(self, wanted: Examination, *, fix: bool) -> wire.DoctorReply:
        # Imported late, because all the checks would slow down the daemon's start.
        from agentctx.doctor.examination import examine_own

        self._begun += 1
        number = self._begun
        reply = await examine_own(self._parts, wanted, fix=fix)
        self._latest = {wanted: (number, reply)}
        return reply
