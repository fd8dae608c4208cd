"""Examines the daemon's own database and model, or those that no daemon has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from agentctx.config.schema import Settings
from agentctx.doctor import backup, queue, rag, running, scrub, space  # noqa: F401 - checks
from agentctx.doctor.catalog import INNER_IDS, select
from agentctx.doctor.check import Skip, failed, passed, report, run_checks, skipped
from agentctx.doctor.contexts import Embedding, Inner, RunningDaemon
from agentctx.doctor.database import open_database
from agentctx.doctor.provider import make_embedding
from agentctx.errors import AgentctxError
from agentctx.storage.opening import server_of
from agentctx.times import Clock, wall_clock
from agentctx.wire import CheckResult, DoctorReply


async def examine_own(daemon: RunningDaemon, only: Sequence[str], *, offline: bool, fix: bool) -> DoctorReply:
    """Examine the database and model that the daemon has open."""
    lanes, settings = daemon.lanes, daemon.settings.value
    embedding = Embedding(
        settings=lanes.leading.settings if lanes else settings.embedding,
        provider=lanes.leading.provider if lanes else None,
        spending=lanes.leading.spending if lanes else None,
        is_next=lanes is not None and lanes.has_moved,
        offline=offline,
    )
    inner = Inner(
        settings=settings,
        path=daemon.database,
        folder=daemon.database.parent,
        opening=passed(f"{server_of(settings) or daemon.database}, open in the daemon"),
        opened=daemon.storage,
        embedding=embedding,
        daemon=daemon,
        clock=daemon.storage.clock,
    )
    return report(await run_checks(select(only), inner, fix=fix))


async def examine_alone(
    settings: Settings,
    path: Path,
    ids: Sequence[str] = INNER_IDS,
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
    storage = None
    async with AsyncExitStack() as closing:
        if embedding.provider is not None:
            closing.push_async_callback(embedding.provider.aclose)
        try:
            if taken:
                raise Skip(taken)
            storage, opening = await open_database(settings, path, clock)
            closing.push_async_callback(storage.close)
        except Skip as reason:
            opening = skipped(str(reason))
        except AgentctxError as error:
            opening = failed(error.message, hint=error.hint)
        inner = Inner(
            settings=settings,
            path=path,
            folder=folder,
            opening=opening,
            opened=storage,
            embedding=embedding,
            clock=clock,
        )
        return await run_checks(ids, inner, fix=fix)
