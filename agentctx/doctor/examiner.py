"""The daemon's operations that examine and repair what it has open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field

from agentctx import wire
from agentctx.embedding.queue.lanes import Lanes
from agentctx.service.access.policy import DAEMON
from agentctx.service.base import CurrentSettings, Peer
from agentctx.service.operations import Operation
from agentctx.service.rag.calibrator import Calibrator
from agentctx.service.refusals import Refusals
from agentctx.service.telemetry.recorder import Recorder
from agentctx.storage.base import Storage

Only = Annotated[list[str] | None, Field(description="Only these checks or groups. Default: all.")]
Offline = Annotated[bool, Field(description="Ask no embedding provider outside the daemon.")]
_Wanted: TypeAlias = tuple[tuple[str, ...], bool]
"""`only` and `offline` of an examination."""


@dataclass
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
    expect_memory: Callable[[], str | None]
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _begun: int = field(default=0, init=False)
    _latest: dict[_Wanted, tuple[int, wire.DoctorReply]] = field(default_factory=dict, init=False)

    @Operation("GET", "/doctor", DAEMON)
    async def doctor(self, peer: Peer, *, only: Only = None, offline: Offline = False) -> wire.DoctorReply:  # noqa: ARG002
        """Examine the daemon's database, queue and embedding provider without changing anything."""
        wanted, asked_after = (tuple(only or ()), offline), self._begun
        async with self._one_at_a_time:
            number, reply = self._latest.get(wanted, (0, None))
            if reply is not None and number > asked_after:
                return reply
            return await self._examine(wanted, fix=False)

    @Operation("POST", "/doctor/fix", DAEMON, errors=(507,))
    async def doctor_fix(
        self,
        peer: Peer,  # noqa: ARG002
        *,
        only: Only = None,
        offline: Offline = False,
    ) -> wire.DoctorReply:
        """Examine and repair what can be repaired; report the repairs and the state after them."""
        async with self._one_at_a_time:
            return await self._examine((tuple(only or ()), offline), fix=True)

    async def _examine(self, wanted: _Wanted, *, fix: bool) -> wire.DoctorReply:
        # Imported late, because all the checks would slow down the daemon's start.
        from agentctx.doctor.examination import examine_own

        only, offline = wanted
        self._begun += 1
        number = self._begun
        reply = await examine_own(
            only,
            offline=offline,
            fix=fix,
            storage=self.storage,
            path=self.database,
            lanes=self.lanes,
            calibrator=self.calibrator,
            refusals=self.refusals,
            recorder=self.recorder,
            settings=self.settings.value,
            expect_memory=self.expect_memory,
        )
        self._latest = {wanted: (number, reply)}
        return reply
