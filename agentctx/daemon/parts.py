"""What the service is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentctx.config.schema import Settings
from agentctx.embedding_queue.space_keeper import SpaceKeeper
from agentctx.embedding_queue.worker import EmbeddingQueue
from agentctx.rag.service import RAGService
from agentctx.storage.base import Storage
from agentctx.storage.records import Clock
from agentctx.stores.registry import Stores
from agentctx.telemetry.base import Telemetry
from agentctx.telemetry.recorder import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the service works with. `queue` and `keeper` are None when nothing is embedded.

    `telemetry` is told what happens; `recorder`, which hears it, says what happened so far.
    """

    settings: Settings
    storage: Storage
    stores: Stores
    rag: RAGService
    queue: EmbeddingQueue | None
    keeper: SpaceKeeper | None
    clock: Clock
    socket: str
    not_ready: Callable[[], str | None]
    database: Path
    telemetry: Telemetry
    recorder: Recorder


class PartsHolder:
    """Base of the classes that together are the service."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
