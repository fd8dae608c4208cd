"""Constructs the daemon: the one place, beside the registries, that names implementations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentctx.config.paths import default_data_dir, default_socket
from agentctx.config.schema import RerankSettings, Settings
from agentctx.daemon.parts import Parts
from agentctx.daemon.service import DaemonService
from agentctx.daemon.telemetry import Listeners, open_telemetry
from agentctx.embedding_providers.base import EmbeddingProvider
from agentctx.embedding_providers.registry import create_provider
from agentctx.embedding_queue.space_keeper import SpaceKeeper
from agentctx.embedding_queue.timing import LoopTimer
from agentctx.embedding_queue.worker import EmbeddingQueue
from agentctx.rag.service import RAGService, Serving
from agentctx.rerankers.base import Reranker
from agentctx.rerankers.registry import create_reranker
from agentctx.storage.records import Clock
from agentctx.storage.sqlite.engine import DATABASE_NAME, SqliteStorage
from agentctx.stores.registry import Stores
from agentctx.telemetry.base import Telemetry
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
    telemetry: Telemetry


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
        UnknownProvider, ConfigInvalid: the settings of embedding, rerank or telemetry cannot be used.
    """
    provider = provider or create_provider(settings.embedding)
    async with (
        open_telemetry(settings.telemetry, provider) as listeners,
        _open_reranker(settings.rerank) as reranker,
    ):
        storage = await SqliteStorage.open(
            places.database,
            readers=settings.storage.readers,
            clock=clock,
            idempotency_hours=settings.storage.idempotency_hours,
            telemetry=listeners.telemetry,
        )
        try:
            queue, keeper = await _embedding(settings, storage, provider, clock, listeners.telemetry)
            yield Core(
                storage=storage,
                service=_service(
                    settings, places, storage, queue, keeper, reranker, not_ready, clock, listeners
                ),
                queue=queue,
                keeper=keeper,
                telemetry=listeners.telemetry,
            )
        finally:
            if provider is not None:
                await provider.aclose()
            await storage.close()


@asynccontextmanager
async def _open_reranker(settings: RerankSettings) -> AsyncIterator[Reranker | None]:
    reranker = await create_reranker(settings)
    try:
        yield reranker
    finally:
        if reranker is not None:
            await reranker.aclose()


async def _embedding(
    settings: Settings,
    storage: SqliteStorage,
    provider: EmbeddingProvider | None,
    clock: Clock,
    telemetry: Telemetry,
) -> tuple[EmbeddingQueue, SpaceKeeper] | tuple[None, None]:
    if provider is None:
        await storage.disable_spaces()
        return None, None
    timer = LoopTimer(clock)
    queue = EmbeddingQueue(
        storage, provider, settings.embedding.queue, clock=clock, timer=timer, telemetry=telemetry
    )
    keeper = SpaceKeeper(storage, provider, queue, timer=timer, telemetry=telemetry)
    await keeper.open()
    return queue, keeper


def _service(
    settings: Settings,
    places: Places,
    storage: SqliteStorage,
    queue: EmbeddingQueue | None,
    keeper: SpaceKeeper | None,
    reranker: Reranker | None,
    not_ready: Callable[[], str | None],
    clock: Clock,
    listeners: Listeners,
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
            rag=RAGService(
                storage,
                keeper.provider if keeper else None,
                serving,
                settings.embedding.rag,
                listeners.telemetry,
                reranker,
                settings.rerank,
            ),
            queue=queue,
            keeper=keeper,
            clock=clock,
            socket=str(places.socket),
            not_ready=not_ready,
            database=places.database,
            telemetry=listeners.telemetry,
            recorder=listeners.recorder,
        )
    )
