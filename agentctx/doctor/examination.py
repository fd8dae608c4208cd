"""Examines the daemon's own database and model, or those that no daemon has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agentctx.config.schema import Settings
from agentctx.doctor.catalog import INNER_IDS, select
from agentctx.doctor.check import Finding, failed, passed, skipped, warned
from agentctx.doctor.database import Opened, judge_schema, repair_summary
from agentctx.doctor.inner import InnerContext, Running, inner_checks, no_queue
from agentctx.doctor.provider import Embedding, make_embedding
from agentctx.doctor.runner import chosen, report, run_checks
from agentctx.embedding_queue.lanes import Lanes
from agentctx.embedding_queue.worker import EmbeddingQueue
from agentctx.errors import AgentctxError, SchemaForeign, StorageCorrupt, StorageFailed
from agentctx.model_adapters.refusals import Refusals
from agentctx.rag.calibrator import Calibrator, kept_calibration
from agentctx.service.prover import running_models
from agentctx.service.status import without_context
from agentctx.storage.base import Storage
from agentctx.storage.opening import offline_storage, open_storage, server_of
from agentctx.telemetry.recorder import Recorder
from agentctx.times import Clock, wall_clock
from agentctx.wire import CalibrationState, CheckResult, DoctorReply


async def examine_own(
    only: Sequence[str],
    *,
    offline: bool,
    fix: bool,
    storage: Storage,
    database: Path,
    lanes: Lanes | None,
    calibrator: Calibrator,
    refusals: Refusals,
    recorder: Recorder,
    settings: Settings,
) -> DoctorReply:
    """Examine the database and model that the daemon has open."""
    server, lane = server_of(settings), lanes.leading if lanes else None
    inside = InnerContext(
        settings=settings,
        opened=Opened(
            path=database,
            storage=storage,
            opening=passed(f"{server or database}, open in the daemon"),
            server=server,
            by_daemon=True,
        ),
        embedding=Embedding(
            settings=lane.settings if lane else settings.embedding,
            provider=lane.provider if lane else None,
            spending=lane.spending if lane else None,
            is_next=lanes.has_moved if lanes else False,
            offline=offline,
        ),
        clock=storage.clock,
        queue_trouble=_trouble(lane.queue) if lane else None,
        recheck_table=lanes.recheck_table if lanes else no_queue,
        calibration=calibrator.state(lane.provider) if lane else None,
        running=Running(
            models=running_models(lanes),
            loop_lag=recorder.loop_lag,
            write_fault=storage.files.fault,
            captures_refused=recorder.captures_refused,
            without_context=without_context(refusals),
        ),
    )
    return report(await run_checks(chosen(inner_checks(inside), select(only)), fix=fix))


def _trouble(queue: EmbeddingQueue) -> str | None:
    status = queue.status()
    return None if status.state == "ok" else status.reason or status.state


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

    A missing database is not created, and one with another schema is not changed. If the lock could not be
    taken, `taken` says who holds it, and the database is not opened.
    """
    folder = database.parent if taken is None and await asyncio.to_thread(database.parent.is_dir) else None
    embedding = make_embedding(settings.embedding, offline=offline, folder=folder, clock=clock)
    try:
        async with _opened(database, settings, taken=taken, clock=clock, fix=fix) as opened:
            inside = InnerContext(
                settings=settings,
                opened=opened,
                embedding=embedding,
                clock=clock,
                calibration=await asyncio.to_thread(_calibration, embedding, folder, settings),
            )
            return await run_checks(chosen(inner_checks(inside), wanted), fix=fix)
    finally:
        if embedding.provider is not None:
            await embedding.provider.aclose()


def _calibration(embedding: Embedding, folder: Path | None, settings: Settings) -> CalibrationState | None:
    if embedding.provider is None or folder is None:
        return None
    if kept_calibration(embedding.provider, folder) is not None:
        return "ready"
    return "pending" if settings.injection.calibrate else "off"


@asynccontextmanager
async def _opened(
    path: Path, settings: Settings, *, taken: str | None, clock: Clock, fix: bool
) -> AsyncIterator[Opened]:
    server = server_of(settings)
    reason = taken or (None if server else await asyncio.to_thread(_reason_to_skip, path))
    if reason is not None:
        yield Opened(path=path, storage=None, opening=skipped(reason), reason=reason, server=server)
        return
    try:
        storage, opening = await _open_or_repair(settings, path, clock=clock, fix=fix)
    except AgentctxError as error:
        opening = failed(error.message, hint=error.hint)
        reason = "the database does not open"
        yield Opened(path=path, storage=None, opening=opening, reason=reason, server=server)
        return
    try:
        yield Opened(path=path, storage=storage, opening=opening, server=server)
    finally:
        await storage.close()


async def _open_or_repair(
    settings: Settings, path: Path, *, clock: Clock, fix: bool
) -> tuple[Storage, Finding]:
    server = server_of(settings)
    try:
        storage = await open_storage(settings, path, clock=clock, migrates=server is None)
        return storage, passed(f"{server or path} opens")
    except (StorageCorrupt, SchemaForeign):
        if not fix or server is not None:
            raise
    repaired = await asyncio.to_thread(offline_storage().rebuild_file, path, now=clock())
    opening = warned(
        f"{path} did not open and was rebuilt from what could be read",
        detail=repair_summary(repaired),
        hint="Check whether anything is missing; if so, restore a backup.",
    )
    return await open_storage(settings, path, clock=clock), opening


def _reason_to_skip(path: Path) -> str | None:
    """Return why the database must not be opened, or None if it may: opening would migrate an old schema."""
    if not path.exists():
        return "nothing is saved yet"
    try:
        schema = offline_storage().schema(path)
    except StorageFailed:
        return None  # opening it reports the error
    finding = judge_schema(schema)
    may_open = schema.is_misrecorded or schema.foreign  # opening it reports what is foreign
    return f"not opened: {finding.message}" if finding.is_trouble and not may_open else None
