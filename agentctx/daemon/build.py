"""Constructs the daemon. Only this module and the registries name implementations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentctx import __version__
from agentctx.config.embedding import RerankSettings
from agentctx.config.extras import install_hint
from agentctx.config.paths import default_data_dir, default_socket
from agentctx.config.schema import Settings, TelemetrySettings
from agentctx.daemon.host.memory_limits import expect_memory
from agentctx.daemon.models import open_lanes, open_models
from agentctx.doctor.examiner import Examiner
from agentctx.embedding.judge.judge import Judge, suits
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.queue.lanes import Lanes
from agentctx.embedding.rerankers.base import Reranker
from agentctx.embedding.rerankers.registry import create_reranker
from agentctx.errors import ConfigInvalid
from agentctx.server.routes import Services
from agentctx.service.access.control import AccessControl
from agentctx.service.audit import AuditReader, AuditTrail
from agentctx.service.backup import Backups
from agentctx.service.base import CurrentSettings
from agentctx.service.entries import Entries
from agentctx.service.file_states import FileStates
from agentctx.service.forgetting import ForgetService
from agentctx.service.guard import Guard
from agentctx.service.guard_rules import AccessContext
from agentctx.service.injections import Injections
from agentctx.service.metrics import Metrics
from agentctx.service.pages import Pages
from agentctx.service.questions import Questions
from agentctx.service.rag.calibrator import Calibrator
from agentctx.service.rag.retrieval import ServingModel
from agentctx.service.rag.select import Caps
from agentctx.service.rag.service import RAGService
from agentctx.service.receipts import ReceiptLog
from agentctx.service.reembed import ModelChange
from agentctx.service.refusals import Refusals
from agentctx.service.release_worker import ReleaseWorker
from agentctx.service.reviews import Reviews
from agentctx.service.self_check import SelfCheck
from agentctx.service.status import Status
from agentctx.service.stores.base import EntryStore
from agentctx.service.telemetry.recorder import Recorder
from agentctx.service.transfer import Transfer
from agentctx.service.trust import Revocations
from agentctx.storage.base import Storage
from agentctx.storage.copy_storage import require_usable
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.opening import open_storage
from agentctx.telemetry import Telemetry
from agentctx.text.redaction.redactor import create_redactor
from agentctx.text.screening.screener import create_screener
from agentctx.times import Clock, wall_clock

if TYPE_CHECKING:
    from agentctx.service.telemetry.tracing import Tracing


@dataclass(frozen=True, slots=True)
class DaemonPaths:
    """The paths of the daemon's data folder and socket."""

    data_dir: Path
    socket: Path

    @classmethod
    def of(cls, settings: Settings) -> DaemonPaths:
        return cls(settings.data_dir or default_data_dir(), settings.socket or default_socket())

    @property
    def database(self) -> Path:
        return self.data_dir / DATABASE_NAME


@dataclass(frozen=True, kw_only=True)
class Core(Services):
    """The daemon without its socket: its services, and the components below them.

    Events are sent to `telemetry`; `recorder` listens to it and keeps the totals. `lanes` is None if nothing
    is embedded.
    """

    data_dir: Path
    settings: CurrentSettings
    storage: Storage
    lanes: Lanes | None
    rag: RAGService
    calibrator: Calibrator
    receipts: ReceiptLog
    audit: AuditTrail
    release_worker: ReleaseWorker
    telemetry: Telemetry
    recorder: Recorder
    refusals: Refusals
    self_check: SelfCheck

    def guard(self, access: AccessControl) -> Guard:
        """Return what surrounds every call of a peer."""
        return Guard(AccessContext(access, self.storage.entries.namespace_of, self.receipts.find), self.audit)

    def reconfigure(self, settings: Settings) -> None:
        """Use new settings. They may differ only in the keys that `reload.adopt` applies."""
        self.rag.settings = settings.embedding.rag
        self.settings.value = settings


@asynccontextmanager
async def open_core(
    settings: Settings,
    paths: DaemonPaths,
    *,
    not_ready: Callable[[], str | None],
    provider: EmbeddingProvider | None = None,
    next_provider: EmbeddingProvider | None = None,
    clock: Clock = wall_clock,
) -> AsyncIterator[Core]:
    """Open the storage and everything on top of it; close all of it in reverse order.

    `provider` and `next_provider` replace the configured ones.

    Raises:
        SchemaTooNew, DriverUnsuitable, StorageFailed: the database cannot be used.
        UnknownProvider, ConfigInvalid: the settings of embedding, rerank, redaction or telemetry cannot be
            used.
    """
    redactor = create_redactor(settings.redaction)
    async with (
        open_models(
            settings.embedding, paths.data_dir, clock, provider=provider, next_provider=next_provider
        ) as models,
        open_telemetry(settings.telemetry, models[0].provider if models else None) as (telemetry, recorder),
        _open_reranker(settings.rerank) as reranker,
        aclosing(Judge()) as judge,
    ):
        storage = await open_storage(settings, paths.database, clock=clock, telemetry=telemetry)
        try:
            await require_usable(storage.copying)
            lanes = await open_lanes(models, settings.embedding, storage, clock, telemetry)
            kept = settings.injection
            receipts = ReceiptLog(
                storage.injections, days=kept.receipts_days, max_rows=kept.receipts_max, clock=storage.clock
            )
            release_worker = ReleaseWorker(
                storage.trust,
                embed=lanes is not None,
                jobs_are_due=lanes.recheck_table if lanes else lambda: None,
            )
            calibrator = Calibrator(
                list(lanes or ()), paths.data_dir, may_embed=kept.calibrate, telemetry=telemetry
            )
            stores = EntryStore(
                storage,
                lanes.enqueue if lanes else None,
                clock=storage.clock,
                limits=settings.limits,
                redactor=redactor,
                screener=create_screener(settings.screening),
                declared=settings.collections,
            )
            rag = _rag(settings, storage, lanes, calibrator, judge, reranker, telemetry)
            audit = AuditTrail(storage.audit, settings.audit, clock=storage.clock)
            current = CurrentSettings(settings)
            refusals = Refusals(storage.clock)
            self_check = SelfCheck(storage, lanes)
            file_states = FileStates(storage.trust, release_worker, current, storage.clock)
            questions = Questions(storage, stores, rag, receipts, redactor, current)
            reembed = ModelChange(storage, lanes)
            backups = Backups(storage, settings, paths.data_dir)
            yield Core(
                data_dir=paths.data_dir,
                settings=current,
                storage=storage,
                lanes=lanes,
                rag=rag,
                calibrator=calibrator,
                receipts=receipts,
                audit=audit,
                release_worker=release_worker,
                telemetry=telemetry,
                recorder=recorder,
                refusals=refusals,
                self_check=self_check,
                entries=Entries(storage, stores, lanes, file_states, release_worker, telemetry),
                questions=questions,
                injections=Injections(storage, rag, receipts, questions, current),
                transfer=Transfer(storage, stores, release_worker, telemetry),
                file_states=file_states,
                status=Status(
                    storage=storage,
                    lanes=lanes,
                    reembed=reembed,
                    calibrator=calibrator,
                    refusals=refusals,
                    recorder=recorder,
                    backups=backups,
                    settings=current,
                    data_dir=paths.data_dir,
                    socket=paths.socket,
                    not_serving=not_ready,
                ),
                reembed=reembed,
                examiner=Examiner(
                    storage, paths.database, lanes, calibrator, refusals, recorder, current, expect_memory
                ),
                forgetting=ForgetService(storage, stores, backups),
                backups=backups,
                audit_reader=AuditReader(storage.audit, audit),
                revocations=Revocations(storage.trust, release_worker, redactor, backups, storage.clock),
                reviews=Reviews(storage.trust, release_worker, current, storage.clock),
                metrics=Metrics(storage, lanes, self_check, receipts, recorder, settings, paths.database),
                pages=Pages(),
            )
        finally:
            await storage.close()


@asynccontextmanager
async def _open_reranker(settings: RerankSettings) -> AsyncIterator[Reranker | None]:
    reranker = await create_reranker(settings)
    try:
        yield reranker
    finally:
        if reranker is not None:
            await reranker.aclose()


def _rag(
    settings: Settings,
    storage: Storage,
    lanes: Lanes | None,
    calibrator: Calibrator,
    judge: Judge,
    reranker: Reranker | None,
    telemetry: Telemetry,
) -> RAGService:
    def serving() -> ServingModel:
        if lanes is None:
            return ServingModel(None)
        lane, builder = lanes.leading, lanes.leading.builder
        of_model = judge if suits(lane.provider) else None
        return ServingModel(builder.searched, builder.reason, lane, calibrator.of(lane.provider), of_model)

    injection = settings.injection
    return RAGService(
        storage,
        None,
        serving,
        settings.embedding.rag,
        telemetry=telemetry,
        reranker=reranker,
        rerank_settings=settings.rerank,
        eagerness=injection.eagerness,
        caps=Caps(external=injection.max_share_external, source=injection.max_share_source),
    )


@asynccontextmanager
async def open_telemetry(
    settings: TelemetrySettings, provider: EmbeddingProvider | None
) -> AsyncIterator[tuple[Telemetry, Recorder]]:
    """Open the telemetry to which everything is reported, and the recorder that collects it for queries.

    It sends the remaining traces when it closes.

    Raises:
        ConfigInvalid: traces are enabled, but OpenTelemetry is not installed.
    """
    recorder = Recorder()
    if settings.traces == "off":
        yield recorder, recorder
        return
    tracing = _tracing(settings, recorder, provider)
    try:
        yield tracing, recorder
    finally:
        await tracing.close()


def _tracing(settings: TelemetrySettings, recorder: Recorder, provider: EmbeddingProvider | None) -> Tracing:
    try:
        from agentctx.service.telemetry.tracing import Tracing
    except ModuleNotFoundError as error:
        raise ConfigInvalid(
            f"telemetry.traces is {settings.traces!r}, but OpenTelemetry is not installed.",
            hint=f'{install_hint("otel")}, or set telemetry.traces to "off".',
        ) from error
    return Tracing(recorder, endpoint=settings.endpoint, model=provider, version=__version__)
