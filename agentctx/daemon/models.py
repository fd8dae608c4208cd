"""Creates the lanes of the configured models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.registry import create_provider, open_spending
from agentctx.embedding.providers.spending import FILE_NAME, NEXT_FILE_NAME, Spending
from agentctx.embedding.queue.lane import Lane
from agentctx.embedding.queue.lanes import Lanes
from agentctx.embedding.queue.timing import LoopTimer
from agentctx.errors import ConfigInvalid, UnknownProvider
from agentctx.storage.base import Storage
from agentctx.telemetry import Telemetry
from agentctx.times import Clock


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """A provider with its settings and spending; `spending` is None unless it is called over HTTP."""

    provider: EmbeddingProvider
    settings: EmbeddingSettings
    spending: Spending | None


@asynccontextmanager
async def open_models(
    settings: EmbeddingSettings,
    folder: Path,
    clock: Clock,
    *,
    provider: EmbeddingProvider | None = None,
    next_provider: EmbeddingProvider | None = None,
) -> AsyncIterator[list[ConfiguredModel]]:
    """Yield the models of `[embedding]` and `[embedding.next]`, in this order; [] if embedding is off.

    A given provider replaces the configured one.

    Raises:
        UnknownProvider, ConfigInvalid: the settings cannot be used.
    """
    models: list[ConfiguredModel] = []
    try:
        if (first := _model(settings, folder, clock, FILE_NAME, provider)) is not None:
            models.append(first)
        after = settings.with_next_model()
        if first is not None and (after is not None or next_provider is not None):
            second = _next_model(after or settings, folder, clock, next_provider)
            models += [] if second is None else [second]
        yield models
    finally:
        for model in models:
            await model.provider.aclose()


async def open_lanes(
    models: list[ConfiguredModel],
    settings: EmbeddingSettings,
    storage: Storage,
    clock: Clock,
    telemetry: Telemetry,
) -> Lanes | None:
    """Open the lanes and spaces of the models; without models, disable all spaces so that no jobs arise."""
    if not models:
        await storage.spaces.disable_all()
        return None
    timer = LoopTimer(clock)
    lanes = Lanes(storage, settings.next, timer, telemetry)
    made = [
        Lane(
            storage,
            model.provider,
            model.settings,
            clock=clock,
            timer=timer,
            leads=lanes.leads,
            permit=lanes.permit,
            spending=model.spending,
            telemetry=telemetry,
        )
        for model in models
    ]
    await lanes.open(*made)
    storage.entries.on_erased(lanes.drop)
    return lanes


def _model(
    settings: EmbeddingSettings,
    folder: Path,
    clock: Clock,
    file_name: str,
    given: EmbeddingProvider | None,
) -> ConfiguredModel | None:
    if given is not None:
        return ConfiguredModel(given, settings, None)
    spending = open_spending(settings, folder, clock, file_name=file_name)
    provider = create_provider(settings, spending)
    return None if provider is None else ConfiguredModel(provider, settings, spending)


def _next_model(
    settings: EmbeddingSettings, folder: Path, clock: Clock, given: EmbeddingProvider | None
) -> ConfiguredModel | None:
    try:
        return _model(settings, folder, clock, NEXT_FILE_NAME, given)
    except (ConfigInvalid, UnknownProvider) as error:
        hint = error.hint.replace("EMBEDDING__", "EMBEDDING__NEXT__")
        hint = hint.replace("embedding__", "embedding__next__")
        raise ConfigInvalid(f"embedding.next: {error.message}", hint=hint) from error
