"""Constructs the daemon: the one place, beside the registries, that names implementations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentctx.config.paths import default_data_dir, default_socket
from agentctx.config.schema import Settings
from agentctx.daemon.parts import Parts
from agentctx.daemon.service import DaemonService
from agentctx.embedding_providers.base import EmbeddingProvider
from agentctx.embedding_providers.registry import create_provider
from agentctx.embedding_queue.space_keeper import SpaceKeeper
from agentctx.embedding_queue.timing import LoopTimer
from agentctx.embedding_queue.worker import EmbeddingQueue
from agentctx.rag.service import RAGService, Serving
from agentctx.storage.records import Clock
from agentctx.storage.sqlite.engine import DATABASE_NAME, SqliteStorage
from agentctx.stores.registry import Stores
from agentctx.times import wall_clock


@dataclass(frozen=True, slots=True)
class Places:
    """Where this daemon keeps its data and listens."""

    data_dir: Path
    socket: Path

    @classmethod
    def of(cls, settings: Settings) -> Places:
        return cls(settings.data_dir or default_data_dir(), settings.socket or default_socket())

    @property
    def database(self) -> Path:
        return self.data_dir / DATABASE_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The daemon without its socket. `queue` and `keeper` are None when nothing is embedded."""

    storage: SqliteStorage
    service: DaemonService
    queue: EmbeddingQueue | None
    keeper: SpaceKeeper | None


@asynccontextmanager
async def open_core(
    settings: Settings,
    places: Places,
    *,
    not_ready: Callable[[], str | None],
    provider: EmbeddingProvider | None = None,
    clock: Clock = wall_clock,
) -> AsyncIterator[Core]:
    """Open the storage and everything on top of it; close it in reverse order.

    `provider` stands in for the configured one.

    Raises:
        SchemaTooNew, DriverUnsuitable, StorageFailed: the database cannot be used.
        UnknownProvider, ConfigInvalid: the embedding settings cannot be used.
    """
    provider = provider or create_provider(settings.embedding)
    storage = await SqliteStorage.open(
        places.database,
        readers=settings.storage.readers,
        clock=clock,
        idempotency_hours=settings.storage.idempotency_hours,
    )
    try:
        queue, keeper = await _embedding(settings, storage, provider, clock)
        yield Core(
            storage=storage,
            service=_service(settings, places, storage, queue, keeper, not_ready, clock),
            queue=queue,
            keeper=keeper,
        )
    finally:
        if provider is not None:
            await provider.aclose()
        await storage.close()


async def _embedding(
    settings: Settings, storage: SqliteStorage, provider: EmbeddingProvider | None, clock: Clock
) -> tuple[EmbeddingQueue, SpaceKeeper] | tuple[None, None]:
    if provider is None:
        await storage.disable_spaces()
        return None, None
    timer = LoopTimer(clock)
    queue = EmbeddingQueue(storage, provider, settings.embedding.queue, clock=clock, timer=timer)
    keeper = SpaceKeeper(storage, provider, queue, timer=timer)
    await keeper.open()
    return queue, keeper


def _service(
    settings: Settings,
    places: Places,
    storage: SqliteStorage,
    queue: EmbeddingQueue | None,
    keeper: SpaceKeeper | None,
    not_ready: Callable[[], str | None],
    clock: Clock,
) -> DaemonService:
    def serving() -> Serving:
        return Serving(keeper.searched, keeper.reason) if keeper else Serving(None)

    return DaemonService(
        Parts(
            settings=settings,
            storage=storage,
            stores=Stores(
                storage,
                queue.enqueue if queue else None,
                clock=clock,
                limits=settings.limits,
                declared=settings.collections,
            ),
            rag=RAGService(storage, keeper.provider if keeper else None, serving, settings.embedding.rag),
            queue=queue,
            keeper=keeper,
            clock=clock,
            socket=str(places.socket),
            not_ready=not_ready,
        )
    )
