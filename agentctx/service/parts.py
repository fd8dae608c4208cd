"""The components of the service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentctx.config.schema import Settings
from agentctx.embedding_providers.spending import Spending
from agentctx.embedding_queue.lanes import Lanes
from agentctx.embedding_queue.space_keeper import SpaceKeeper
from agentctx.embedding_queue.worker import EmbeddingQueue
from agentctx.model_adapters.refusals import Refusals
from agentctx.rag.calibrator import Calibrator
from agentctx.rag.service import RAGService
from agentctx.redaction.redactor import Redactor
from agentctx.service.audit import AuditTrail
from agentctx.service.receipts import ReceiptLog
from agentctx.service.settler import Settler
from agentctx.storage.base import Storage
from agentctx.stores.base import EntryStore
from agentctx.telemetry.base import Telemetry
from agentctx.telemetry.recorder import Recorder
from agentctx.times import Clock


@dataclass(slots=True, kw_only=True)
class Parts:
    """The components that the service uses. `lanes` is None if nothing is embedded.

    Events are sent to `telemetry`; `recorder` listens to it and keeps the totals.
    """

    settings: Settings
    storage: Storage
    stores: EntryStore
    rag: RAGService
    calibrator: Calibrator
    receipts: ReceiptLog
    audit: AuditTrail
    redactor: Redactor
    lanes: Lanes | None
    clock: Clock
    socket: str
    not_ready: Callable[[], str | None]
    database: Path
    telemetry: Telemetry
    recorder: Recorder
    settler: Settler
    refusals: Refusals

    @property
    def queue(self) -> EmbeddingQueue | None:
        """The queue of the answering model; None if nothing is embedded."""
        return self.lanes.leading.queue if self.lanes else None

    @property
    def keeper(self) -> SpaceKeeper | None:
        """The space keeper of the answering model; None if nothing is embedded."""
        return self.lanes.leading.keeper if self.lanes else None

    @property
    def spending(self) -> Spending | None:
        """The spending on the answering model; None if it costs nothing."""
        return self.lanes.leading.spending if self.lanes else None

    def reconfigure(self, settings: Settings) -> None:
        """Use new settings. They may differ only in the keys that `reload.adopt` applies."""
        self.rag.settings = settings.embedding.rag
        self.settings = settings


class PartsHolder:
    """Base of the parts of the service; each part implements some operations."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
