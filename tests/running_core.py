"""The daemon's core in the test's event loop, with its background tasks but without a socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agentctx.config.schema import Settings
from agentctx.daemon.build import Core, DaemonPaths, open_core
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.errors import AgentctxError
from agentctx.service.access.control import AccessControl
from agentctx.service.base import Peer
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.times import Clock, wall_clock
from agentctx.wire import SaveRequest, SaveResult

ME = Peer(pid=os.getpid(), uid=os.getuid(), gid=os.getgid())


@asynccontextmanager
async def running_core(
    folder: Path,
    provider: EmbeddingProvider | None,
    *,
    clock: Clock = wall_clock,
    settings: Settings | None = None,
    next_provider: EmbeddingProvider | None = None,
    **overrides: Any,
) -> AsyncIterator[Core]:
    """Start the core. `overrides` are sections of the settings. Without a provider nothing is embedded.

    `next_provider` is the model of `embedding.next`.
    """
    off = {"embedding": {"provider": "none"}} if provider is None else {}
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240 - one folder of a test
    settings = settings or Settings.model_validate({**off, **overrides})
    places = DaemonPaths(folder, folder / "agentctx.sock")
    async with open_core(
        settings, places, not_ready=lambda: None, provider=provider, next_provider=next_provider, clock=clock
    ) as core:
        running = asyncio.create_task(core.lanes.run()) if core.lanes else None
        try:
            yield core
        finally:
            if core.lanes and running:
                await core.lanes.stop(timeout=0)
                await running


async def save(core: Core, collection: str = "knowledge", **fields: Any) -> SaveResult:
    """Save one entry. Raises its error."""
    (result,) = await core.entries.save([SaveRequest(collection=collection, **fields)], ME)
    if isinstance(result, AgentctxError):
        raise result
    return result


async def embedded(core: Core) -> None:
    """Wait until the model has answered and no job is pending."""
    assert core.lanes is not None
    await core.lanes.leading.builder.served()
    await core.lanes.leading.queue.idle()
    assert (await core.storage.jobs.depth()).pending == 0


def guarded(core: Core, access: AccessControl) -> Any:
    """Return all operations by name, as `access` lets peers call them."""
    guard = core.guard(access)
    return SimpleNamespace(**{method.__name__: guard(method) for method in core.operations()})


def sqlite_of(core: Core) -> SqliteStorage:
    """Return the engine, to inspect its connections."""
    assert isinstance(core.storage, SqliteStorage)
    return core.storage
