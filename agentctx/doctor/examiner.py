"""Examines the daemon's own database and model, one examination at a time."""

from __future__ import annotations

import asyncio

from agentctx.service.base import Examination, Peer
from agentctx.service.parts import Parts, PartsHolder
from agentctx.wire import DoctorReply


class Examiner(PartsHolder):
    """The part of the service that examines the daemon's own database and model.

    One examination runs at a time. Callers that arrive while it runs wait for the next one and share it.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._turn = asyncio.Lock()
        self._begun = 0
        self._latest: dict[Examination, tuple[int, DoctorReply]] = {}

    async def doctor(self, wanted: Examination, peer: Peer) -> DoctorReply:  # noqa: ARG002
        asked_after = self._begun
        async with self._turn:
            number, reply = self._latest.get(wanted, (0, None))
            if reply is not None and number > asked_after:
                return reply
            return await self._examine(wanted, fix=False)

    async def doctor_fix(self, wanted: Examination, peer: Peer) -> DoctorReply:  # noqa: ARG002
        async with self._turn:
            return await self._examine(wanted, fix=True)

    async def _examine(self, wanted: Examination, *, fix: bool) -> DoctorReply:
        # Imported here so that startup does not load modules needed only when something is wrong.
        from agentctx.doctor.examination import examine_own

        self._begun += 1
        number = self._begun
        reply = await examine_own(self._parts, wanted, fix=fix)
        self._latest = {wanted: (number, reply)}
        return reply
