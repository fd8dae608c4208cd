"""The daemon's telemetry: always the recorder, and traces if configured."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentctx import __version__
from agentctx.config.schema import TelemetrySettings
from agentctx.embedding_providers.base import EmbeddingProvider
from agentctx.errors import ConfigInvalid
from agentctx.extras import install_hint
from agentctx.telemetry.base import Telemetry
from agentctx.telemetry.recorder import Recorder

if TYPE_CHECKING:
    from agentctx.telemetry.tracing import Tracing


@dataclass(frozen=True, slots=True)
class Listeners:
    """Everything is reported to `telemetry`; `recorder` listens to it and can be queried."""

    telemetry: Telemetry
    recorder: Recorder


@asynccontextmanager
async def open_telemetry(
    settings: TelemetrySettings, provider: EmbeddingProvider | None
) -> AsyncIterator[Listeners]:
    """Listen, and in the end send what traces are still here.

    Raises:
        ConfigInvalid: traces are wanted, but OpenTelemetry is not installed.
    """
    recorder = Recorder()
    if settings.traces == "off":
        yield Listeners(recorder, recorder)
        return
    tracing = _tracing(settings, recorder, provider)
    try:
        yield Listeners(tracing, recorder)
    finally:
        await tracing.close()


def _tracing(settings: TelemetrySettings, recorder: Recorder, provider: EmbeddingProvider | None) -> Tracing:
    try:
        from agentctx.telemetry.tracing import Tracing
    except ModuleNotFoundError as error:
        raise ConfigInvalid(
            f"telemetry.traces is {settings.traces!r}, but OpenTelemetry is not installed.",
            hint=f'{install_hint("otel")}, or set telemetry.traces to "off".',
        ) from error
    return Tracing(recorder, endpoint=settings.endpoint, model=provider, version=__version__)
