"""Examining the database and the model: inside the daemon, or alone when no daemon runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agentctx.config.schema import Settings
from agentctx.daemon.parts import Parts, PartsHolder
from agentctx.doctor.catalog import INNER_IDS, select
from agentctx.doctor.check import failed, passed, skipped
from agentctx.doctor.database import Opened, judge_schema
from agentctx.doctor.inner import Inside, inner_checks
from agentctx.doctor.provider import Embedding, make_embedding
from agentctx.doctor.report import report
from agentctx.doctor.runner import chosen, run_checks
from agentctx.errors import AgentctxError, StorageFailed
from agentctx.server.service import Examination, Peer
from agentctx.sqlite.migrate import check_schema
from agentctx.storage.records import Clock
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.times import wall_clock
from agentctx.wire import CheckResult, DoctorReply


class Doctor(PartsHolder):
    """The part of `server.service.Service` that examines the daemon's own database and model.

    One examination runs at a time. Whoever asks for one while another runs waits, and shares the next.
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
        self._begun += 1
        number = self._begun
        checks = chosen(inner_checks(self._inside(offline=wanted.offline)), select(wanted.only))
        reply = report(await run_checks(checks, fix=fix))
        self._latest = {wanted: (number, reply)}
        return reply

    def _inside(self, *, offline: bool) -> Inside:
        parts = self._parts
        return Inside(
            settings=parts.settings,
            opened=Opened(
                path=parts.database,
                storage=parts.storage,
                opening=passed(f"{parts.database}, open in the daemon"),
                by_daemon=True,
            ),
            embedding=Embedding(
                settings=parts.settings.embedding,
                provider=parts.keeper.provider if parts.keeper else None,
                offline=offline,
            ),
            clock=parts.clock,
            queue_trouble=self._trouble(),
            look_again=self._look_again,
        )

    def _trouble(self) -> str | None:
        if self._parts.queue is None:
            return None
        status = self._parts.queue.status()
        return None if status.state == "ok" else status.reason or status.state

    def _look_again(self) -> None:
        if self._parts.queue is not None:
            self._parts.queue.look_again()


async def examine_alone(
    settings: Settings,
    database: Path,
    wanted: Sequence[str] = INNER_IDS,
    *,
    offline: bool = False,
    fix: bool = False,
    taken: str | None = None,
    clock: Clock = wall_clock,
) -> list[CheckResult]:
    """Examine a database that no daemon has. The caller holds the lock of its folder.

    A missing database is not made, and one of another schema is not changed. `taken` says who else holds the
    lock, when it could not be had: then the database is left alone.
    """
    embedding = make_embedding(settings.embedding, offline=offline)
    try:
        async with _opened(database, settings, taken=taken, clock=clock) as opened:
            inside = Inside(settings=settings, opened=opened, embedding=embedding, clock=clock)
            return await run_checks(chosen(inner_checks(inside), wanted), fix=fix)
    finally:
        if embedding.provider is not None:
            await embedding.provider.aclose()


@asynccontextmanager
async def _opened(
    path: Path, settings: Settings, *, taken: str | None, clock: Clock
) -> AsyncIterator[Opened]:
    reason = taken or await asyncio.to_thread(_reason_to_leave, path)
    if reason is not None:
        yield Opened(path=path, storage=None, opening=skipped(reason), reason=reason)
        return
    try:
        storage = await SqliteStorage.open(
            path,
            readers=settings.storage.readers,
            clock=clock,
            idempotency_hours=settings.storage.idempotency_hours,
        )
    except AgentctxError as error:
        opening = failed(error.message, hint=error.hint)
        yield Opened(path=path, storage=None, opening=opening, reason="the database does not open")
        return
    try:
        yield Opened(path=path, storage=storage, opening=passed(f"{path} opens"))
    finally:
        await storage.close()


def _reason_to_leave(path: Path) -> str | None:
    """Why the database must not be opened for writing; None when it may. Opening migrates: not here."""
    if not path.exists():
        return "nothing is saved yet"
    try:
        schema = judge_schema(check_schema(path))
    except StorageFailed:
        return None  # opening says what is wrong with it
    return f"not opened: {schema.message}" if schema.is_trouble else None
