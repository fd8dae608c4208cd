"""Examines the daemon's own database and model, or those that no daemon has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from agentctx.config.schema import Settings
from agentctx.doctor import backup, database, provider, queue, rag, running, scrub, space  # noqa: F401 - checks
from agentctx.doctor.catalog import INNER_IDS, select
from agentctx.doctor.check import Finding, Skip, failed, passed, skipped, warned
from agentctx.doctor.database import judge_schema, repair_summary
from agentctx.doctor.inner import Embedding, Inner, RunningDaemon, make_embedding
from agentctx.doctor.runner import report, run_checks
from agentctx.embedding.queue.lanes import Lanes
from agentctx.errors import AgentctxError, SchemaForeign, StorageCorrupt, StorageFailed
from agentctx.service.rag.calibrator import Calibrator, kept_calibration
from agentctx.service.refusals import Refusals
from agentctx.service.self_check import running_models
from agentctx.service.status import without_context
from agentctx.service.telemetry.recorder import Recorder
from agentctx.storage.base import Storage
from agentctx.storage.opening import offline_storage, open_storage, server_of
from agentctx.times import Clock, wall_clock
from agentctx.wire import CalibrationState, CheckResult, DoctorReply


async def examine_own(
    only: Sequence[str],
    *,
    offline: bool,
    fix: bool,
    storage: Storage,
    path: Path,
    lanes: Lanes | None,
    calibrator: Calibrator,
    refusals: Refusals,
    recorder: Recorder,
    settings: Settings,
    expect_memory: Callable[[], str | None],
) -> DoctorReply:
    """Examine the database and model that the daemon has open."""
    server, lane = server_of(settings), lanes.leading if lanes else None
    status = lane.queue.status() if lane else None
    inner = Inner(
        settings=settings,
        path=path,
        server=server,
        opening=passed(f"{server or path}, open in the daemon"),
        opened=storage,
        embedding=Embedding(
            settings=lane.settings if lane else settings.embedding,
            provider=lane.provider if lane else None,
            spending=lane.spending if lane else None,
            is_next=lanes.has_moved if lanes else False,
            offline=offline,
        ),
        calibration=calibrator.state(lane.provider) if lane else None,
        daemon=RunningDaemon(
            expect_memory=expect_memory,
            models=running_models(lanes),
            loop_lag=recorder.loop_lag,
            write_fault=storage.files.fault,
            captures_refused=recorder.captures_refused,
            without_context=without_context(refusals),
            queue_trouble=status.reason or status.state if status and status.state != "ok" else None,
            recheck_table=lanes.recheck_table if lanes else None,
        ),
        clock=storage.clock,
    )
    return report(await run_checks(select(only), inner, fix=fix))


async def examine_alone(
    settings: Settings,
    path: Path,
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
    folder = path.parent if taken is None and await asyncio.to_thread(path.parent.is_dir) else None
    embedding = make_embedding(settings.embedding, offline=offline, folder=folder, clock=clock)
    async with AsyncExitStack() as closing:
        if embedding.provider is not None:
            closing.push_async_callback(embedding.provider.aclose)
        storage, reason = None, ""
        try:
            storage, opening = await _open(settings, path, taken=taken, clock=clock, fix=fix)
            closing.push_async_callback(storage.close)
        except Skip as skip:
            reason = str(skip)
            opening = skipped(reason)
        except AgentctxError as error:
            reason = "the database does not open"
            opening = failed(error.message, hint=error.hint)
        inner = Inner(
            settings=settings,
            path=path,
            server=server_of(settings),
            opening=opening,
            opened=storage,
            not_opened=reason,
            embedding=embedding,
            calibration=await asyncio.to_thread(_calibration, embedding, folder, settings),
            clock=clock,
        )
        return await run_checks(wanted, inner, fix=fix)


def _calibration(embedding: Embedding, folder: Path | None, settings: Settings) -> CalibrationState | None:
    if embedding.provider is None or folder is None:
        return None
    if kept_calibration(embedding.provider, folder) is not None:
        return "ready"
    return "pending" if settings.injection.calibrate else "off"


async def _open(
    settings: Settings, path: Path, *, taken: str | None, clock: Clock, fix: bool
) -> tuple[Storage, Finding]:
    """Open the database, with the finding about it; with `fix`, a file that does not open is rebuilt.

    Raises:
        Skip: it must not be opened.
        AgentctxError: it does not open.
    """
    server = server_of(settings)
    if taken:
        raise Skip(taken)
    if server is None:
        await asyncio.to_thread(_expect_schema, path)
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


def _expect_schema(path: Path) -> None:
    """Raise `Skip` if the database must not be opened: opening would create it, or migrate an old schema."""
    if not path.exists():
        raise Skip("nothing is saved yet")
    try:
        schema = offline_storage().schema(path)
    except StorageFailed:
        return  # opening it reports the error
    finding = judge_schema(schema)
    may_open = schema.is_misrecorded or schema.foreign  # opening it reports what is foreign
    if finding.is_trouble and not may_open:
        raise Skip(f"not opened: {finding.message}")
