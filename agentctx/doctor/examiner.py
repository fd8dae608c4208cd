"""The daemon's operations that examine and repair what it has open."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from agentctx import wire
from agentctx.embedding_queue.lanes import Lanes
from agentctx.model_adapters.refusals import Refusals
from agentctx.rag.calibrator import Calibrator
from agentctx.service.base import CurrentSettings, Examination, Peer
from agentctx.storage.base import Storage
from agentctx.telemetry.recorder import Recorder


@dataclass(kw_only=True)
class Examiner:
    """Examines the daemon's own database and model.

    One examination runs at a time. Callers that arrive while it runs wait for the next one and share it.
    """

    storage: Storage
    database: Path
    lanes: Lanes | None
    calibrator: Calibrator
    refusals: Refusals
    recorder: Recorder
    settings: CurrentSettings
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _begun: int = field(default=0, init=False)
    _latest: dict[Examination, tuple[int, wire.DoctorReply]] = field(default_factory=dict, init=False)

    async def doctor(self, wanted: Examination, peer: Peer) -> wire.DoctorReply:  # noqa: ARG002
        asked_after = self._begun
        async with self._one_at_a_time:
            number, reply = self._latest.get(wanted, (0, None))
            if reply is not None and number > asked_after:
                return reply
            return await self._examine(wanted, fix=False)

    async def doctor_fix(self, wanted: Examination, peer: Peer) -> wire.DoctorReply:  # noqa: ARG002
        async with self._one_at_a_time:
            return await self._examine(wanted, fix=True)

    async def _examine(self, wanted: Examination, *, fix: bool) -> wire.DoctorReply:
        # Imported late, because all the checks would slow down the daemon's start.
        from agentctx.doctor.examination import examine_own

        self._begun += 1
        number = self._begun
        reply = await examine_own(
            wanted,
            fix=fix,
            storage=self.storage,
            database=self.database,
            lanes=self.lanes,
            calibrator=self.calibrator,
            refusals=self.refusals,
            recorder=self.recorder,
            settings=self.settings.value,
        )
        self._latest = {wanted: (number, reply)}
        return reply
